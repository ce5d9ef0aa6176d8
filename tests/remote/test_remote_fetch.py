"""Fetching from a broker that sends unusual responses."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import pack

import pytest

from mainstem.core.batch import place
from mainstem.core.errors import OffsetOutOfRange, Unreachable
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.remote.cluster import Cluster
from mainstem.remote.fetch import fetch

ORDERS = ("orders", 0)
NOT_LEADER, OUT_OF_RANGE = 6, 1


def string(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


def metadata(port: int) -> bytes:
    """One broker, which leads the only partition."""
    broker = pack(">i", 7) + string("127.0.0.1") + pack(">ih", port, -1)
    partition = pack(">hiiii", 0, 0, 7, 0, 0)
    topic = pack(">h", 0) + string("orders") + pack(">bi", 0, 1) + partition
    return pack(">ii", 0, 1) + broker + pack(">hii", -1, 7, 1) + topic


def answer(records: bytes = b"", *, code: int = 0, stable: int = 100) -> bytes:
    head = pack(">ii", 0, 1) + string("orders") + pack(">i", 1)
    return head + pack(">ihqqi", 0, code, 100, stable, -1) + pack(">i", len(records)) + records


THROTTLED = pack(">ii", 1, 0)


@contextmanager
def broker(*fetches: bytes) -> Iterator[str]:
    """Answer fetches one after the other, and who asks for metadata at any time."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    left = list(fetches)

    def talk(peer: socket.socket) -> None:
        with peer:
            while size := peer.recv(4, socket.MSG_WAITALL):
                frame = peer.recv(int.from_bytes(size), socket.MSG_WAITALL)
                body = metadata(port) if frame[1] == 3 else left.pop(0)
                peer.sendall(pack(">i", len(body) + 4) + frame[4:8] + body)
                if frame[1] == 1 and not left:
                    return

    def serve() -> None:
        while left:
            peer, _ = listener.accept()
            talk(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        left.clear()
        # It may still wait for somebody to ask.
        socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
        listener.close()


def positions(address: str, start: int, end: int, timeout_s: float = 10) -> Sequence[int]:
    cluster = Cluster(address, timeout_s=timeout_s, settings={})
    return [found.position for found in fetch(cluster, ORDERS, start, end)]


def batch(first: int, count: int) -> bytes:
    found = build([Event(b"x")] * count, now_ms=1)
    place(found, first, 0)
    return bytes(found)


def test_nothing_is_waited_for_where_compaction_took_everything_up_to_the_end() -> None:
    with broker(answer(batch(0, 90)), answer()) as address:
        assert positions(address, 0, 100) == [90]


def test_a_broker_that_holds_back_is_asked_again() -> None:
    with broker(THROTTLED, answer(batch(0, 100))) as address:
        assert positions(address, 0, 100) == [100]


def test_a_piece_of_a_batch_at_the_end_is_asked_for_again() -> None:
    whole = batch(0, 50) + batch(50, 50)
    with broker(answer(whole[:-10]), answer(batch(50, 50))) as address:
        assert positions(address, 0, 100) == [50, 100]


def test_a_partition_that_moved_is_read_where_it_is_now() -> None:
    with broker(answer(code=NOT_LEADER), answer(batch(0, 100))) as address:
        assert positions(address, 0, 100) == [100]


def test_an_offset_that_is_gone_is_said() -> None:
    with (
        broker(answer(code=OUT_OF_RANGE)) as address,
        pytest.raises(OffsetOutOfRange, match="orders"),
    ):
        positions(address, 5, 100)


def test_an_end_that_never_comes_is_said() -> None:
    with (
        broker(*[answer(stable=90)] * 2) as address,
        pytest.raises(Unreachable),
    ):
        positions(address, 90, 100, timeout_s=0.01)
