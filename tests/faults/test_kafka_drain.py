"""SIGTERM under load: what was begun is finished, and clients go on where they were."""

import signal
from pathlib import Path

import pytest
from tests.faults.mortal import Mortal, create
from tests.faults.test_kafka_kill_produce import PARTITIONS, Line, verdict
from tests.heads.kafka.attack import Peer, fetching, produce, request

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.messages.fetch import FETCH, FetchResponse

NEVER = 2**31 - 1
BATCH = bytes(build([Event(value=b"x")], now_ms=1))


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_server_told_to_stop_under_load_loses_and_doubles_nothing(
    tmp_path: Path, idempotent: bool
) -> None:
    with Mortal(tmp_path / "data") as server:
        create(server.address, "t", PARTITIONS)
        in_flight = 5 if idempotent else 1
        config = {"enable.idempotence": idempotent, "max.in.flight": in_flight}
        line = Line(server.address, **config)
        for _ in range(3):
            assert line.done.wait_for(500)
            server.tell(signal.SIGTERM)
            assert server.wait() == 0
            server.start()
        assert line.done.wait_for(500)
        line.finish()

        assert "unclean" not in server.said
        assert verdict(server, line) == []


def test_whoever_waits_is_answered_with_what_there_is(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server, Peer(server.address) as reader:
        assert produce(reader, "t", BATCH).error_code == 0
        wish = fetching("t", 0, max_wait_ms=NEVER, min_bytes=NEVER)
        reader.send(request(FETCH, 12, wish))
        with Peer(server.address) as other:
            assert produce(other, "t", BATCH).error_code == 0

        server.tell(signal.SIGTERM)

        fetched = reader.answer(FETCH, 12, FetchResponse).responses[0].partitions[0]
        assert fetched.error_code == 0
        assert fetched.high_watermark == 2
        assert reader.is_cut_off()
        reader.socket.close()
        assert server.wait() == 0


def test_a_peer_that_neither_reads_nor_closes_does_not_keep_the_server(tmp_path: Path) -> None:
    with (
        Mortal(tmp_path / "data") as server,
        Peer(server.address, receive_buffer=4096) as deaf,
        Peer(server.address) as silent,
    ):
        assert produce(silent, "t", bytes(build([Event(bytes(900_000))], now_ms=1))).error_code == 0
        deaf.send(request(FETCH, 12, fetching("t", 0)) * 50)
        deaf.socket.recv(1)

        server.tell(signal.SIGTERM)
        assert silent.is_cut_off()
        server.tell(signal.SIGTERM)

        assert server.wait() == 0
        assert "unclean" not in server.said
