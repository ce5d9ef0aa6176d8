"""Peers that ask for too much, over real sockets: the server's memory stays bounded, and its turns.

The server is a process of its own, so that its memory is not the attacker's.
"""

import contextlib
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.answer_times import AnswerTimes
from tests.heads.kafka.raw_peers import NEVER, Healthy, Peer, fetching, produce, production, request
from tests.heads.server_process import PATIENCE_S, Process, beside, until

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest
from mainstem.kafka_protocol.messages.produce import PRODUCE

LARGE = "large"
OPEN = 'mainstem_connections{head="kafka"}'
LARGE_BATCHES = 64


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with a topic of 64 MB, most of which one fetch may ask for."""
    path: Path = tmp_path_factory.mktemp("abused")
    process = Process(path, kafka__max_fetch_bytes=50_000_000)
    batch = bytes(build([Event(value=bytes(1_000_000))], now_ms=1))
    with Peer(process.address) as peer:
        for _ in range(LARGE_BATCHES):
            assert produce(peer, LARGE, batch).error_code == 0
    yield process
    process.close()


@contextlib.contextmanager
def flood(peer: Peer, data: bytes) -> Iterator[None]:
    """Send as much as the server takes, for as long as the block lasts."""

    def send() -> None:
        with contextlib.suppress(OSError):
            peer.send(data)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    # A socket that is only closed goes on for those who wait for it.
    with contextlib.suppress(OSError):
        peer.socket.shutdown(socket.SHUT_RDWR)
    peer.socket.close()
    thread.join(PATIENCE_S)


def until_no_longer_read(peer: Peer, data: bytes) -> int:
    """Send until the server stops reading; return how much it and the kernel took."""
    peer.socket.setblocking(False)
    sent = 0
    while select.select([], [peer.socket], [], 0.3)[1]:
        with contextlib.suppress(BlockingIOError):
            sent += peer.socket.send(data)
    peer.socket.settimeout(PATIENCE_S)
    return sent


def test_ten_thousand_requests_ahead_of_any_reading_are_answered_in_order(
    server: Process, healthy: Healthy
) -> None:
    asked = b"".join(request(METADATA, 9, MetadataRequest(None), each) for each in range(10_000))

    with Peer(server.address) as hasty:
        sender = threading.Thread(target=hasty.send, args=(asked,))
        sender.start()
        healthy.check()
        ids = [struct.unpack_from(">i", hasty.frame())[0] for _ in range(10_000)]
        sender.join(PATIENCE_S)

    assert ids == list(range(10_000))


def test_a_peer_that_never_reads_is_no_longer_read_from(server: Process, healthy: Healthy) -> None:
    asked = b"".join(request(METADATA, 9, MetadataRequest(None), each) for each in range(1000))

    with Peer(server.address) as deaf:
        until_no_longer_read(deaf, asked)

        healthy.check()


def test_many_slow_readers_of_large_answers_cost_little(server: Process, healthy: Healthy) -> None:
    everything = fetching(LARGE, max_bytes=NEVER)
    asked = request(FETCH, 12, everything) * 20

    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(Peer(server.address, receive_buffer=4096)) for _ in range(50)]
        for each in slow:
            each.send(asked)
        for each in slow:
            each.socket.recv(100)
        healthy.check()

        # One that reads after all gets all of it.
        found = decoded(slow[0].socket, first=100)

    assert found > LARGE_BATCHES * 1_000_000 * 0.7


def decoded(source: socket.socket, first: int) -> int:
    """Read the rest of an answer whose first bytes were taken; return how many came."""
    got = first
    while got < 45_000_000:
        got += len(source.recv(1 << 20))
    return got


def test_answers_that_are_large_arrive_whole(server: Process) -> None:
    with Peer(server.address) as peer:
        answer = peer.ask(FETCH, 12, fetching(LARGE, max_bytes=NEVER), FetchResponse)

    records = answer.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert len(records) > 45_000_000
    assert bytes(records[-100:]) == bytes(99) + b"\0"


def test_who_waits_for_more_than_an_answer_holds_is_given_what_it_holds(server: Process) -> None:
    wish = fetching(LARGE, max_wait_ms=NEVER, min_bytes=NEVER, max_bytes=NEVER)

    with Peer(server.address) as peer:
        answer = peer.ask(FETCH, 12, wish, FetchResponse)

    records = answer.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert len(records) > 45_000_000


def test_a_reset_in_the_middle_of_an_answer_costs_nobody_anything(
    server: Process, healthy: Healthy
) -> None:
    for _ in range(50):
        hostile = Peer(server.address)
        hostile.send(request(FETCH, 12, fetching(LARGE, max_bytes=NEVER)) * 3)
        hostile.socket.recv(1000)
        hostile.reset()

    healthy.check()


def test_ten_thousand_long_polls_on_one_connection_are_not_all_taken(
    server: Process, healthy: Healthy
) -> None:
    poll = fetching(healthy.topic, 1, max_wait_ms=NEVER, min_bytes=NEVER, max_bytes=NEVER)

    with Peer(server.address) as hostile, flood(hostile, request(FETCH, 12, poll) * 10_000):
        for _ in range(20):
            healthy.check()


def test_a_long_poll_on_each_of_many_connections_is_dropped_when_they_go(
    server: Process, healthy: Healthy
) -> None:
    poll = request(FETCH, 12, fetching(healthy.topic, 1, max_wait_ms=NEVER, min_bytes=NEVER))

    # Those of a peer that left its answers unread may be there until they are answered.
    before = server.metric(OPEN)
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(Peer(server.address)).send(poll)
        while_there = cost_of_checks(server, healthy)
    until(lambda: server.metric(OPEN) <= before, healthy.check)

    # While they are there, each check wakes a thousand of them.
    assert cost_of_checks(server, healthy) < while_there / 2


def cost_of_checks(server: Process, healthy: Healthy) -> float:
    before = server.cpu_s()
    for _ in range(10):
        healthy.check()
    return server.cpu_s() - before


def test_a_fetch_that_waits_is_answered_as_soon_as_there_is_enough(server: Process) -> None:
    batch = bytes(build([Event(value=b"x")], now_ms=1))
    with Peer(server.address) as reader, Peer(server.address) as writer:
        assert produce(writer, "awaited", batch).error_code == 0
        reader.send(request(FETCH, 12, fetching("awaited", 1, max_wait_ms=NEVER)))

        assert produce(writer, "awaited", batch).error_code == 0

        fetched = reader.answer(FETCH, 12, FetchResponse).responses[0].partitions[0]
        assert fetched.high_watermark == 2
        assert fetched.records


def many_partitions(topic: str, count: int) -> FetchRequest:
    places = tuple(
        FetchPartition(number, fetch_offset=0, partition_max_bytes=1) for number in range(count)
    )
    return FetchRequest(min_bytes=1, topics=(FetchTopic(topic=topic, partitions=places),))


@pytest.mark.parametrize("topic", ["nowhere", LARGE])
def test_a_fetch_of_fifty_thousand_partitions_is_answered(
    server: Process, healthy: Healthy, topic: str
) -> None:
    with Peer(server.address) as hostile:
        hostile.send(request(FETCH, 12, many_partitions(topic, 50_000)))
        healthy.check()
        answer = hostile.answer(FETCH, 12, FetchResponse)

    partitions = answer.responses[0].partitions
    assert len(partitions) == 50_000
    assert partitions[-1].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_of_a_hundred_thousand_partitions_is_refused(
    server: Process, healthy: Healthy
) -> None:
    with Peer(server.address) as hostile:
        wish = many_partitions(LARGE, 100_000)

        assert hostile.ask(FETCH, 12, wish, FetchResponse).error_code == Code.INVALID_REQUEST
        healthy.check()
        # Before version 7 there is no way to say so.
        hostile.send(request(FETCH, 6, wish))
        assert hostile.is_cut_off()


def test_frames_that_never_become_whole_share_a_bounded_room(
    server: Process, healthy: Healthy
) -> None:
    # Half of a frame of 100 MiB each, as far as it is taken.
    start = struct.pack(">i", 100 * 1024 * 1024)

    with contextlib.ExitStack() as stack:
        for number in range(200):
            peer = stack.enter_context(Peer(server.address))
            peer.socket.setblocking(False)
            peer.socket.send(start)
            for _ in range(2 if number else 16):
                with contextlib.suppress(BlockingIOError):
                    peer.socket.send(bytes(1 << 20))
        healthy.check()

    # There is room again for those who finish what they begin.
    with Peer(server.address) as peer:
        batch = bytes(build([Event(value=bytes(1_000_000))], now_ms=1))
        assert produce(peer, healthy.topic + ".after", batch).error_code == 0


def test_what_was_sent_without_acknowledgement_before_closing_is_kept(
    server: Process, healthy: Healthy
) -> None:
    batch = bytes(build([Event(value=b"x")], now_ms=1))
    topic = f"unacknowledged.{time.monotonic_ns()}"
    with Peer(server.address) as peer:
        assert produce(peer, topic, batch).error_code == 0

    with Peer(server.address) as hasty:
        hasty.send(request(PRODUCE, 9, production(topic, batch, acks=0)) * 5000)

    with Peer(server.address) as peer:
        wish = fetching(topic, 5001, max_wait_ms=PATIENCE_S * 1000)
        answer = fetched_at(peer, wish)
    assert answer == 5001


def fetched_at(peer: Peer, wish: FetchRequest) -> int:
    """Ask until the offset exists, and return the tail."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        part = peer.ask(FETCH, 12, fetching(wish.topics[0].topic), FetchResponse)
        tail = part.responses[0].partitions[0].high_watermark
        if tail >= 5001:
            return tail
    return -1


def test_a_busy_connection_does_not_starve_the_others(server: Process, healthy: Healthy) -> None:
    batch = bytes(build([Event(value=b"x")], now_ms=1))
    busy = request(PRODUCE, 9, production("busy", batch, acks=0)) * 100_000
    times = AnswerTimes(server.pid)

    first, second = Peer(server.address), Peer(server.address)
    with flood(first, busy), flood(second, busy):
        for _ in range(20):
            with times.measured():
                healthy.check()

    times.check()


def test_a_busy_connection_that_asks_for_no_answers_is_read_to_its_end(
    server: Process, healthy: Healthy
) -> None:
    count = 20_000
    batch = bytes(build([Event(value=b"x")], now_ms=1))

    with Peer(server.address) as peer, beside(healthy, server):
        peer.send(request(PRODUCE, 9, production("all", batch, acks=0)) * count)
        # Answers come in the order of the requests.
        assert produce(peer, "all", batch).base_offset == count


def test_connections_that_come_and_go_leave_nothing(server: Process, healthy: Healthy) -> None:
    for _ in range(3000):
        Peer(server.address).socket.close()

    healthy.check()


def test_ten_thousand_idle_connections_take_under_a_hundred_megabytes(
    shared: Process, tmp_path: Path
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, _, port = shared.address.rpartition(":")
    healthy = Healthy(shared.address)
    before = shared.memory_mb()

    with contextlib.ExitStack() as stack:
        for number in range(count):
            # Each from an address of its own would run out of ports less soon; one is enough.
            peer = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
            if number % 10 == 0:
                peer.sendall(request(METADATA, 9, MetadataRequest(())))
        healthy.check()
        grown = shared.memory_mb() - before

    healthy.check()
    healthy.close()
    print(f"{count} connections took {grown:.1f} MB")  # noqa: T201
    assert grown < 100 * count / 10_000
