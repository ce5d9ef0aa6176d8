"""A full disk, as Kafka clients see it: KAFKA_STORAGE_ERROR, and it is over when there is space."""

from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from tests.faults.mortal import PATIENCE_S, QUICK, Mortal, create, read, until
from tests.heads.kafka.attack import Peer, produce

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.errors import Code

FULL = """
import errno, os
from mainstem.log.files import RealFile
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
