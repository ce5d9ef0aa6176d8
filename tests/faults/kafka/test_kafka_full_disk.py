"""A full disk, as Kafka clients see it: KAFKA_STORAGE_ERROR, and it is over when there is space."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from tests.faults.killable_server import PATIENCE_S, QUICK, Mortal, create, read, until
from tests.heads.admin.web import get
from tests.heads.kafka.raw_peers import Peer, produce

import mainstem
from mainstem.core.errors import StorageFull
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.node.data_directory import holder_of

FULL = """
import errno, os
from mainstem.log.files.files import RealFile
for name in ("pwrite", "allocate"):
    def refuse(self, *arguments, real=getattr(RealFile, name)):
        if os.path.exists({sign!r}):
            with open({sign!r}, "a") as tries:
                tries.write("x")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, *arguments)
    setattr(RealFile, name, refuse)
"""
"""The disk is full while a file is there, which grows with every try."""


def test_a_full_disk_is_a_storage_error_and_heals_by_itself(tmp_path: Path) -> None:
    sign = tmp_path / "full"
    batch = bytes(build([Event(b"x")], now_ms=1))
    with (
        Mortal(tmp_path / "data", flaw=FULL.format(sign=str(sign))) as server,
        Peer(server.address) as peer,
    ):
        assert produce(peer, "t", batch).error_code == 0

        sign.touch()
        refused = produce(peer, "t", batch)
        sign.unlink()
        again = produce(peer, "t", batch)

        assert refused.error_code == Code.KAFKA_STORAGE_ERROR
        assert "space" in (refused.error_message or "")
        assert (again.error_code, again.base_offset) == (0, 1)


def test_an_idempotent_producer_goes_on_where_it_was_when_there_is_space(tmp_path: Path) -> None:
    sign = tmp_path / "full"
    with Mortal(tmp_path / "data", flaw=FULL.format(sign=str(sign))) as server:
        create(server.address, "t", 1)
        config = {"bootstrap.servers": server.address, "enable.idempotence": True, **QUICK}
        sender = Producer({**config, "linger.ms": 0})
        errors: list[KafkaError] = []

        def report(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        for number in range(300):
            if number == 100:
                assert sender.flush(PATIENCE_S) == 0
                sign.touch()
            sender.produce("t", b"%d" % number, on_delivery=report)
            sender.poll(0)
        # Nothing gets through, however often the client tries.
        until(lambda: sign.stat().st_size > 5 or sender.poll(0.01) < 0)
        assert len(sender) == 200
        sign.unlink()

        assert sender.flush(PATIENCE_S) == 0
        assert errors == []
        assert [int(value) for value in read(server.address, "t", 0)] == list(range(300))


def test_a_full_disk_is_told_where_people_look_and_so_is_its_end(tmp_path: Path) -> None:
    sign, data = tmp_path / "full", tmp_path / "data"
    with Mortal(data, flaw=FULL.format(sign=str(sign))) as server:
        holder = holder_of(data)
        assert holder is not None
        admin = str(holder.admin)
        with mainstem.connect(server.address) as stem:
            stem.publish("t", b"before")
            sign.touch()
            with (
                mainstem.connect(server.address, message_timeout_ms=1000) as hasty,
                pytest.raises(StorageFull, match=f"the disk of {data} has no space left") as told,
            ):
                hasty.publish("t", b"refused")
            page = get(admin, "/readyz")
            counted = get(admin, "/metrics").text
            sign.unlink()
            until(lambda: get(admin, "/readyz").status == 200)
            stem.publish("t", b"after")

        assert "free some space" in str(told.value)
        assert page.status == 503
        assert page.text.startswith(f"full: the disk of {data} has no space left")
        assert "mainstem_log_full 1" in counted
        assert "mainstem_log_full 0" in get(admin, "/metrics").text
        server.kill()
        assert server.said.count("events are refused: the disk of") == 1
        assert server.said.count("events are accepted again") == 1
        assert not (data / "space.probe").exists()
