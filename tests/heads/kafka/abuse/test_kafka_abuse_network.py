"""Networks and machines that fail, and peers that come in crowds, over real sockets.

The server is a process of its own, so that its memory is not the attacker's.
"""

import contextlib
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tests.heads.kafka.packet_loss import LOSE_A_FIFTH, vanish
from tests.heads.kafka.raw_peers import NEVER, Healthy, Peer, fetching, produce, request
from tests.heads.server_process import PATIENCE_S, Process, beside, until

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.transport.answers import MAX_UNANSWERED
from mainstem.kafka_protocol.messages.connection import (
    API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from mainstem.kafka_protocol.messages.fetch import FETCH
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse

LARGE = "large"
LARGE_ANSWER = 50_000_000
OPEN = 'mainstem_connections{head="kafka"}'
ASK_VERSIONS = request(API_VERSIONS, 3, ApiVersionsRequest("a", "1"))


@contextlib.contextmanager
def with_large_topic(path: Path, **settings: object) -> Iterator[Process]:
    """Serve a topic of 16 MB, all of which one fetch may ask for."""
    batch = bytes(build([Event(value=bytes(1_000_000))], now_ms=1))
    with Process(path, kafka__max_fetch_bytes=LARGE_ANSWER, **settings) as process:
        with Peer(process.address) as peer:
            for _ in range(16):
                assert produce(peer, LARGE, batch).error_code == 0
        yield process


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with with_large_topic(tmp_path_factory.mktemp("abused")) as process:
        yield process


def say_nothing(peer: Peer) -> None:
    pass


def begin_a_request(peer: Peer) -> None:
    peer.send(struct.pack(">i", 50_000_000) + bytes(100_000))


def wait_for_events(peer: Peer) -> None:
    peer.send(request(FETCH, 12, fetching(LARGE, 16, max_wait_ms=NEVER, min_bytes=NEVER)))


def wait_for_more_than_is_taken(peer: Peer) -> None:
    wish = request(FETCH, 12, fetching(LARGE, 16, max_wait_ms=NEVER, min_bytes=NEVER))
    peer.send(wish * 2 * MAX_UNANSWERED)


def leave_answers_unread(peer: Peer) -> None:
    peer.send(request(FETCH, 12, fetching(LARGE, max_bytes=NEVER)))
    peer.socket.recv(1)


def be_in_the_middle_of_many(peer: Peer) -> None:
    peer.send(request(METADATA, 9, MetadataRequest(None)) * 1000)


habits: list[Callable[[Peer], None]] = [
    say_nothing,
    begin_a_request,
    wait_for_events,
    wait_for_more_than_is_taken,
    leave_answers_unread,
    be_in_the_middle_of_many,
]


def test_peers_whose_machine_has_gone_and_those_that_take_nothing_are_given_up(
    tmp_path: Path,
) -> None:
    with with_large_topic(tmp_path, kafka__silence_ms=1000) as server, server.within_bounds():
        healthy, patient = Healthy(server.address), Peer(server.address)
        before = server.metric(OPEN)
        with contextlib.ExitStack() as stack:
            for habit in habits * 4:
                gone = stack.enter_context(Peer(server.address, receive_buffer=4096))
                habit(gone)
                vanish(gone.socket)
            for _ in range(4):
                deaf = stack.enter_context(Peer(server.address, receive_buffer=4096))
                leave_answers_unread(deaf)

            until(lambda: server.metric(OPEN) <= before, healthy.check)

        # One that is there may say nothing for longer than that.
        patient.send(ASK_VERSIONS)
        assert patient.answer(API_VERSIONS, 3, ApiVersionsResponse).error_code == 0
        patient.socket.close()
        healthy.close()


@pytest.mark.parametrize("leave", [Peer.reset, lambda peer: peer.socket.close()])
def test_a_peer_that_goes_while_nothing_more_is_taken_from_it_is_noticed(
    server: Process, healthy: Healthy, leave: Callable[[Peer], None]
) -> None:
    before = server.metric(OPEN)
    peer = Peer(server.address)
    wait_for_more_than_is_taken(peer)
    until(lambda: server.metric(OPEN) > before, healthy.check)

    leave(peer)

    until(lambda: server.metric(OPEN) <= before, healthy.check)


def waits_for_the_window(peer: Peer) -> bool:
    """Tell whether the kernel only asks from time to time whether the peer will take more."""
    # Both ends: another server on this machine may have a peer with the same port.
    ends = peer.socket.getpeername()[1], peer.socket.getsockname()[1]
    probing = "04"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, _, timer = line.split()[:6]
        if (port_of(local), port_of(remote)) == ends:
            return timer.startswith(probing)
    return False


def port_of(end: str) -> int:
    """Return the port of an end of a connection as the kernel writes it."""
    return int(end.rpartition(":")[2], 16)


def test_a_peer_whose_window_stays_shut_is_not_waited_for(
    server: Process, healthy: Healthy
) -> None:
    with contextlib.ExitStack() as stack:
        shut = [stack.enter_context(Peer(server.address, receive_buffer=2048)) for _ in range(20)]
        for each in shut:
            each.send(request(FETCH, 12, fetching(LARGE, max_bytes=NEVER)) * 10)
        seen: set[Peer] = set()

        def all_are_shut() -> bool:
            seen.update(each for each in shut if waits_for_the_window(each))
            return len(seen) == len(shut)

        until(all_are_shut, healthy.check)
        healthy.check()


def test_a_thousand_connects_a_second_keep_nobody_out(server: Process, healthy: Healthy) -> None:
    count, threads = 3000, 3
    before = server.metric(OPEN)
    began = time.monotonic()
    failed: list[BaseException] = []

    def connect() -> None:
        try:
            for number in range(count // threads):
                peer = Peer(server.address)
                if number % 10 == 0:
                    peer.send(ASK_VERSIONS)
                    assert peer.answer(API_VERSIONS, 3, ApiVersionsResponse).error_code == 0
                # No port is kept by what has just been closed.
                peer.reset()
        except BaseException as error:
            failed.append(error)
            raise

    with beside(healthy, server):
        crowd = [threading.Thread(target=connect) for _ in range(threads)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join(PATIENCE_S)
    took = time.monotonic() - began

    print(f"{count / took:.0f} connects a second")  # noqa: T201 - a figure for whoever asks with -s
    assert failed == []
    until(lambda: server.metric(OPEN) <= before, healthy.check)


def sent_again(peer: Peer) -> int:
    """Return how many packets of a peer the kernel has sent again."""
    state = peer.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(state[100:], sys.byteorder)


def test_a_client_on_a_network_that_loses_a_fifth_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    with Process(tmp_path, loses_a_fifth=True) as process:
        with Peer(process.address) as peer:
            ask = partial(peer.ask, METADATA, 9, MetadataRequest(()), MetadataResponse)
            until(lambda: sent_again(peer) > 0, ask)
        lossy = {
            "bootstrap_servers": process.address,
            "socket_options": [LOSE_A_FIFTH, (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
            "request_timeout_ms": PATIENCE_S * 1000,
            "bootstrap_timeout_ms": PATIENCE_S * 1000,
        }
        sender = KafkaProducer(
            **lossy,
            enable_idempotence=True,
            max_block_ms=PATIENCE_S * 1000,
            delivery_timeout_ms=2 * PATIENCE_S * 1000,
        )
        sent = [sender.send("lost", b"%d" % number, partition=0) for number in range(100)]

        offsets = [each.get(2 * PATIENCE_S).offset for each in sent]

        assert offsets == list(range(100))
        source = KafkaConsumer(**lossy, auto_offset_reset="earliest", enable_auto_commit=False)
        source.assign([TopicPartition("lost", 0)])
        found: list[int] = []
        until(
            lambda: len(found) >= 100,
            lambda: found.extend(
                int(event.value) for events in source.poll(1000).values() for event in events
            ),
        )
        assert found == list(range(100))
        source.close()
        sender.close()
