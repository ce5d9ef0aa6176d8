"""Peers that misbehave, against a server of its own: healthy clients are served beside them."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

import pynng
import pytest
from tests.faults.killable_server import free_port
from tests.heads.healthy import Healthy
from tests.heads.kafka.raw_peers import Peer
from tests.heads.nng import sp as wire
from tests.heads.server_process import (
    PATIENCE_S,
    Process,
    beside,
    connected,
    is_probed,
    until,
)

import mainstem
from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import joined, parted
from mainstem.heads.nng import sp

LIMIT = 64 * 1024
TOPIC = "orders"
PULLED = "mainstem_nng_collected_total"


def ask_for_bounds(replay: "pynng.Req0") -> None:
    replay.send(joined([b"BOUNDS", TOPIC.encode()]))
    assert parted(replay.recv())[0] == b"BOUNDS"


class Attacked:
    """The server, and where its sockets are."""

    def __init__(self, server: Process, **addresses: str) -> None:
        self.server = server
        self.replay = server.addresses["nng"]
        self.pull, self.publish = addresses["pull"], addresses["publish"]
        self.named, self.slow = addresses["named"], addresses["slow"]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    path = tmp_path_factory.mktemp("nng")
    with mainstem.open(path) as stem:
        stem.topics.create("collected")
        stem.topics.create(TOPIC, durability="disk")
        stem.publish_many(TOPIC, [Event(b"x" * 1_000) for _ in range(5_000)])
    pull, publish, named, slow = (f"127.0.0.1:{free_port()}" for _ in range(4))
    with Process(
        path,
        nng__listen="127.0.0.1:0",
        nng__publish=publish,
        nng__topics=TOPIC,
        nng__pull=f"collected={pull}",
        nng__subscribers=f"{TOPIC}/named={named},{TOPIC}/slow={slow}",
        nng__subscriber_rate=1_000_000,
        nng__max_message_bytes=LIMIT,
    ) as server:
        yield Attacked(server, pull=pull, publish=publish, named=named, slow=slow)


@contextlib.contextmanager
def healthy(attacked: Attacked) -> Iterator[None]:
    """Fail if a healthy peer is not served, or memory grows."""
    with (
        pynng.Req0(recv_timeout=PATIENCE_S * 1000, send_timeout=PATIENCE_S * 1000) as replay,
        Peer(attacked.server.address) as kafka,
    ):
        replay.dial(f"tcp://{attacked.replay}", block=True)
        client = Healthy(kafka, lambda: ask_for_bounds(replay))
        client.check()
        with attacked.server.within_bounds(), beside(client):
            yield
        client.check()


@contextlib.contextmanager
def spoken(address: str, protocol: int, receive_buffer: int = 0) -> Iterator[socket.socket]:
    """Connect as a socket of nng."""
    with connected(address, receive_buffer) as peer:
        peer.sendall(sp.header(protocol))
        heard = b""
        while len(heard) < sp.HEADER_BYTES:
            heard += peer.recv(sp.HEADER_BYTES - len(heard))
        yield peer


def _read_to_end(hostile: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while hostile.recv(65_536):
            pass


OPENINGS = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "noise": os.urandom(512),
    "another version": b"\0SP\x01\0\x21\0\0",
    "another protocol": sp.header(wire.PAIR),
    "reserved bytes": b"\0SP\0\0\x21\0\x01",
    "all bits": b"\xff" * 8,
    # nng waits ten seconds for the rest.
    "half a header": b"\0SP\0",
}


@pytest.mark.parametrize("said", OPENINGS.values(), ids=OPENINGS)
def test_a_peer_that_does_not_speak_nng_is_cut_off(attacked: Attacked, said: bytes) -> None:
    addresses = (attacked.replay, attacked.pull, attacked.publish, attacked.named)
    with healthy(attacked), contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connected(each)) for each in addresses]
        for hostile in peers:
            with contextlib.suppress(OSError):
                hostile.sendall(said)
        for hostile in peers:
            _read_to_end(hostile)


SIZES = {"2^63": 2**63, "2^64 - 1": 2**64 - 1, "2^31": 2**31, "the limit + 1": LIMIT + 1}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_message_over_the_limit_cuts_off_its_peer(attacked: Attacked, size: int) -> None:
    sockets = ((attacked.replay, wire.REQ), (attacked.pull, wire.PUSH), (attacked.named, sp.SUB))
    before = attacked.server.metric(PULLED)
    with healthy(attacked):
        for address, protocol in sockets:
            with spoken(address, protocol) as hostile:
                with contextlib.suppress(OSError):
                    hostile.sendall(struct.pack(">Q", size) + bytes(min(size, LIMIT + 1)))
                _read_to_end(hostile)
    assert attacked.server.metric(PULLED) == before


def test_one_byte_at_a_time(attacked: Attacked) -> None:
    before = attacked.server.metric(PULLED)
    with healthy(attacked), connected(attacked.pull) as slow:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in sp.header(wire.PUSH) + wire.message(b"slowly"):
            slow.sendall(bytes((byte,)))
        until(lambda: attacked.server.metric(PULLED) == before + 1, lambda: None)
    with healthy(attacked), connected(attacked.named) as slow:
        for byte in sp.header(sp.SUB):
            slow.sendall(bytes((byte,)))
        assert slow.recv(1)


def test_messages_that_are_cut_off_are_not_appended(attacked: Attacked) -> None:
    whole = wire.message(b"x" * 1_000)
    before = attacked.server.metric(PULLED)
    with healthy(attacked):
        for at in (0, 1, 7, 8, 9, 500, 1_007):
            for _ in range(20):
                with spoken(attacked.pull, wire.PUSH) as hostile:
                    hostile.sendall(whole[:at])
        with spoken(attacked.pull, wire.PUSH) as peer:
            peer.sendall(whole)
            until(lambda: attacked.server.metric(PULLED) > before, lambda: None)
    assert attacked.server.metric(PULLED) == before + 1


def test_requests_that_nobody_reads_the_answers_of(attacked: Attacked) -> None:
    asked = joined([b"REPLAY", TOPIC.encode(), b"0", b"0"])
    with healthy(attacked), contextlib.ExitStack() as stack:
        for _ in range(20):
            greedy = stack.enter_context(spoken(attacked.replay, wire.REQ, 4096))
            greedy.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(3_000):
                    greedy.sendall(wire.request(asked))
        requests = "mainstem_nng_requests_total"
        until(lambda: attacked.server.metric(requests) > 100, lambda: None)


def test_requests_without_end_that_are_refused(attacked: Attacked) -> None:
    refused = 'mainstem_nng_requests_total{outcome="invalid"}'
    with healthy(attacked), spoken(attacked.replay, wire.REQ) as hostile:
        for body in (b"", b"\xff\xff\xff\xff", joined([b"REPLAY", b"x" * 3_000, b"9" * 900, b"0"])):
            for number in range(300):
                hostile.sendall(wire.message(struct.pack(">I", 2**31 + number) + body))
                assert len(hostile.recv(65_536)) > sp.HEADER_BYTES
    assert attacked.server.metric(refused) >= 600


def test_a_request_whose_hops_never_end(attacked: Attacked) -> None:
    # Of a request's header, only the last word has the highest bit.
    with healthy(attacked), spoken(attacked.replay, wire.REQ) as hostile:
        for hops in (10, 1_000):
            with contextlib.suppress(OSError):
                hostile.sendall(wire.message(struct.pack(">I", 1) * hops))


def _flood(attacked: Attacked) -> None:
    with mainstem.connect(attacked.server.address) as stem:
        for _ in range(10):
            stem.publish_many(TOPIC, [Event(b"x" * 1_000)] * 2_000)


def test_a_slow_subscriber_at_full_speed(attacked: Attacked) -> None:
    with spoken(attacked.publish, sp.SUB, 4096), healthy(attacked):
        _flood(attacked)
        dropped = "mainstem_nng_dropped_total"
        until(lambda: attacked.server.metric(dropped) > 0, lambda: None)


def test_a_named_subscriber_that_does_not_read(attacked: Attacked) -> None:
    sent = f'mainstem_nng_subscriber_sent_total{{topic="{TOPIC}",subscriber="slow"}}'
    with spoken(attacked.slow, sp.SUB, 4096), healthy(attacked):
        _flood(attacked)
        until(lambda: attacked.server.metric(sent) > 0, lambda: None)


def test_many_connections_that_say_nothing(attacked: Attacked) -> None:
    with healthy(attacked), contextlib.ExitStack() as idle:
        addresses = (attacked.replay, attacked.pull, attacked.publish, attacked.named)
        peers = [idle.enter_context(connected(each)) for each in addresses for _ in range(125)]
        # nng's ten seconds for a header are over, and ours.
        for each in peers:
            _read_to_end(each)


def test_more_connections_than_are_allowed(attacked: Attacked) -> None:
    refused = 'mainstem_connections_refused_total{head="nng"}'
    with healthy(attacked), contextlib.ExitStack() as idle:
        for _ in range(1_100):
            peer = idle.enter_context(connected(attacked.pull))
            peer.sendall(sp.header(wire.PUSH))
        until(lambda: attacked.server.metric(refused) > 0, lambda: None)


@pytest.mark.parametrize("name", ["replay", "publish", "pull", "named"])
def test_hosts_that_disappear_are_noticed(attacked: Attacked, name: str) -> None:
    """A connection whose other end is gone is closed by the kernel, which probes it."""
    with connected(getattr(attacked, name)) as idle:
        until(lambda: is_probed(idle), lambda: None)
