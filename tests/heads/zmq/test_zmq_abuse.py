"""Peers that misbehave, against a server of its own: healthy clients are served beside them."""

import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from tests.faults.killable_server import free_port
from tests.heads.healthy import Healthy
from tests.heads.kafka.raw_peers import Peer
from tests.heads.server_process import Process, beside, connected, is_probed, until
from tests.heads.zmq import zmtp

import mainstem
from mainstem.core.event import Event

LIMIT = 64 * 1024
TOPIC = "orders"


def ask_for_bounds(replay: "zmq.Socket[bytes]") -> None:
    replay.send_multipart([b"BOUNDS", TOPIC.encode()])
    assert replay.poll(60_000), "no answer"
    assert replay.recv_multipart()[0] == b"BOUNDS"


class Attacked:
    """The server, and where its sockets are."""

    def __init__(self, server: Process, pull: str, publish: str) -> None:
        self.server, self.pull, self.publish = server, pull, publish
        self.replay = server.addresses["zmq"]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    path = tmp_path_factory.mktemp("zmq")
    with mainstem.open(path) as stem:
        stem.topics.create(TOPIC, durability="disk")
        stem.publish_many(TOPIC, [Event(b"x" * 1_000) for _ in range(5_000)])
    pull, publish = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with Process(
        path,
        zmq__listen="127.0.0.1:0",
        zmq__publish=publish,
        zmq__pull=f"{TOPIC}={pull}",
        zmq__max_message_bytes=LIMIT,
        zmq__handshake_ms=500,
        zmq__max_subscriptions=1_000,
    ) as server:
        yield Attacked(server, pull, publish)


Opens = Callable[..., "zmq.Socket[bytes]"]


@pytest.fixture
def peer() -> Iterator[Opens]:
    """Open sockets that are closed in the end."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context[zmq.Socket[bytes]]())

        def opened(kind: int, address: str, **options: int) -> "zmq.Socket[bytes]":
            found = stack.enter_context(context.socket(kind))
            for name, value in {"LINGER": 0, "RCVBUF": 4096, "RCVHWM": 1, **options}.items():
                found.set(getattr(zmq, name), value)
            found.connect(f"tcp://{address}")
            return found

        yield opened


@contextlib.contextmanager
def healthy(attacked: Attacked) -> Iterator[None]:
    """Fail if a healthy peer is not served, or memory grows."""
    with (
        zmq.Context[zmq.Socket[bytes]]() as own,
        own.socket(zmq.DEALER) as replay,
        Peer(attacked.server.address) as kafka,
    ):
        replay.setsockopt(zmq.LINGER, 0)
        replay.connect(f"tcp://{attacked.replay}")
        client = Healthy(kafka, lambda: ask_for_bounds(replay))
        client.check()
        with attacked.server.within_bounds(), beside(client, attacked.server):
            yield
        client.check()


NULL_READY = zmtp.greeting(b"NULL") + zmtp.command(b"READY", b"\x0bSocket-Type\0\0\0\x04PUSH")
SUB_READY = zmtp.greeting(b"NULL") + zmtp.command(b"READY", b"\x0bSocket-Type\0\0\0\x03SUB")
OPENINGS = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "noise": os.urandom(512),
    "another mechanism": zmtp.greeting(b"GSSAPI"),
    "version 2": b"\xff" + bytes(8) + b"\x7f\x01\x08\x00\x00",
    "version 99": (b"\xff" + bytes(8) + b"\x7f\x63\x00NULL").ljust(64, b"\0"),
    "half a greeting": zmtp.greeting(b"NULL")[:40],
    "a message before the handshake": zmtp.greeting(b"NULL") + zmtp.message(b"early"),
    "a command of 2 GiB": zmtp.greeting(b"NULL") + b"\x06" + struct.pack(">Q", 2**31),
    "a property beyond its frame": zmtp.greeting(b"NULL")
    + zmtp.command(b"READY", b"\x0bSocket-Type\x7f\xff\xff\xffPUSH"),
    "a wrong socket type": zmtp.greeting(b"NULL")
    + zmtp.command(b"READY", b"\x0bSocket-Type\0\0\0\x04PAIR"),
}


@pytest.mark.parametrize("said", OPENINGS.values(), ids=OPENINGS)
def test_a_peer_that_does_not_speak_zmtp_is_cut_off(attacked: Attacked, said: bytes) -> None:
    with healthy(attacked):
        for address in (attacked.replay, attacked.pull, attacked.publish):
            with connected(address) as hostile:
                with contextlib.suppress(OSError):
                    hostile.sendall(said)
                _read_to_end(hostile)


FRAMES = {
    "2^63": b"\x02" + struct.pack(">Q", 2**63),
    "2^31": b"\x02" + struct.pack(">Q", 2**31),
    "the limit + 1": b"\x02" + struct.pack(">Q", LIMIT + 1) + bytes(LIMIT + 1),
    "an unknown flag": b"\xf8\x01x",
}


@pytest.mark.parametrize("said", FRAMES.values(), ids=FRAMES)
def test_a_bad_frame_cuts_off_its_peer(attacked: Attacked, said: bytes) -> None:
    with healthy(attacked), connected(attacked.pull) as hostile:
        shaken_hands(hostile)
        with contextlib.suppress(OSError):
            hostile.sendall(said)
            # libzmq ignores flags that it does not know.
            if said[0] == 0xF8:
                hostile.shutdown(socket.SHUT_WR)
        _read_to_end(hostile)


def _read_to_end(hostile: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while hostile.recv(65_536):
            pass


def test_requests_that_nobody_reads_the_answers_of(attacked: Attacked, peer: Opens) -> None:
    greedy = peer(zmq.DEALER, attacked.replay, SNDHWM=0)

    with healthy(attacked):
        for _ in range(3_000):
            greedy.send_multipart([b"REPLAY", TOPIC.encode(), b"0", b"0"])
        unsent = 'mainstem_zmq_requests_total{outcome="unsent"}'
        until(lambda: attacked.server.metric(unsent) > 0, lambda: None)


def test_subscriptions_without_end(attacked: Attacked, peer: Opens) -> None:
    greedy = peer(zmq.SUB, attacked.publish, SNDHWM=0)

    with healthy(attacked):
        for number in range(4_000):
            greedy.subscribe(b"%d/" % number)
        refused = "mainstem_zmq_refused_subscriptions_total"
        until(lambda: attacked.server.metric(refused) >= 3_000, lambda: None)

    greedy.close(0)
    until(lambda: attacked.server.metric("mainstem_zmq_subscriptions") == 0, lambda: None)


def test_a_slow_subscriber_at_full_speed(attacked: Attacked, peer: Opens) -> None:
    slow = peer(zmq.SUB, attacked.publish)
    slow.subscribe(b"")
    until(lambda: attacked.server.metric("mainstem_zmq_subscriptions") == 1, lambda: None)

    with healthy(attacked), mainstem.connect(attacked.server.address) as stem:
        for _ in range(10):
            stem.publish_many(TOPIC, [Event(b"x" * 1_000)] * 2_000)
        dropped = "mainstem_zmq_dropped_total"
        until(lambda: attacked.server.metric(dropped) > 0, lambda: None)


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Let this process open as many files as it may."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def open_connections(attacked: Attacked) -> float:
    return attacked.server.metric('mainstem_connections{head="zmq"}')


@pytest.mark.usefixtures("descriptors")
def test_thousands_of_connections_that_say_nothing_are_cut_off(attacked: Attacked) -> None:
    with healthy(attacked), contextlib.ExitStack() as idle:
        peers = [idle.enter_context(connected(attacked.replay)) for _ in range(5_000)]
        # zmq.handshake_ms is over.
        for each in peers:
            _read_to_end(each)


@pytest.mark.usefixtures("descriptors")
def test_a_thousand_idle_subscribers(attacked: Attacked) -> None:
    """They have shaken hands, so they may stay."""
    before = open_connections(attacked)
    with healthy(attacked), contextlib.ExitStack() as idle:
        for _ in range(1_000):
            idle.enter_context(connected(attacked.publish)).sendall(SUB_READY)
        until(lambda: open_connections(attacked) >= before + 1_000, lambda: None)
    until(lambda: open_connections(attacked) <= before, lambda: None)


def descriptors_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_without_descriptors_those_connected_are_served_and_others_later(
    attacked: Attacked, peer: Opens
) -> None:
    pid = attacked.server.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with healthy(attacked):
        taken = descriptors_of(pid)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 5, limits[1]))
        try:
            with contextlib.ExitStack() as crowd:
                for _ in range(50):
                    crowd.enter_context(connected(attacked.publish))
                until(lambda: descriptors_of(pid) == taken + 5, lambda: None)
                late = peer(zmq.DEALER, attacked.replay)
                late.send_multipart([b"BOUNDS", TOPIC.encode()])
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        # libzmq tries again by itself.
        assert late.poll(60_000)


def test_a_thousand_connects_a_second_keep_nobody_out(attacked: Attacked) -> None:
    before, began, count = open_connections(attacked), time.monotonic(), 3_000
    with healthy(attacked):
        for _ in range(count):
            with connected(attacked.pull) as hasty:
                reset(hasty)
        print(f"{count / (time.monotonic() - began):.0f} connects a second")  # noqa: T201 - for -s
    until(lambda: open_connections(attacked) <= before, lambda: None)


def test_resets_in_the_midst_of_a_frame(attacked: Attacked) -> None:
    before = open_connections(attacked)
    collected = attacked.server.metric("mainstem_zmq_collected_total")
    with healthy(attacked):
        for _ in range(300):
            with connected(attacked.pull) as broken:
                shaken_hands(broken)
                broken.sendall(b"\x02" + struct.pack(">Q", LIMIT) + bytes(LIMIT // 2))
                reset(broken)
    until(lambda: open_connections(attacked) <= before, lambda: None)
    # No half of a frame is a message.
    assert attacked.server.metric("mainstem_zmq_collected_total") == collected


def test_two_hundred_frames_of_a_hundred_mebibytes_are_refused(attacked: Attacked) -> None:
    before = open_connections(attacked)
    begun = b"\x02" + struct.pack(">Q", 100 << 20) + bytes(1 << 20)
    with healthy(attacked):
        for _ in range(200):
            with connected(attacked.pull) as greedy:
                shaken_hands(greedy)
                with contextlib.suppress(OSError):
                    greedy.sendall(begun)
                _read_to_end(greedy)
    until(lambda: open_connections(attacked) <= before, lambda: None)


def test_a_stopped_subscriber_is_no_burden(attacked: Attacked) -> None:
    """Its process stands still, and its kernel's buffers are full."""
    before = attacked.server.metric("mainstem_zmq_dropped_total")
    with (
        healthy(attacked),
        subprocess.Popen([sys.executable, "-c", STOPPED, f"tcp://{attacked.publish}"]) as stopped,
        mainstem.connect(attacked.server.address) as stem,
    ):
        try:
            until(lambda: attacked.server.metric("mainstem_zmq_subscriptions") == 1, lambda: None)
            stopped.send_signal(signal.SIGSTOP)
            for _ in range(20):
                stem.publish_many(TOPIC, [Event(b"x" * 1_000)] * 2_000)
            dropped = "mainstem_zmq_dropped_total"
            until(lambda: attacked.server.metric(dropped) > before, lambda: None)
        finally:
            stopped.kill()
    until(lambda: attacked.server.metric("mainstem_zmq_subscriptions") == 0, lambda: None)


STOPPED = """
import sys, zmq
subscriber = zmq.Context().socket(zmq.SUB)
subscriber.set(zmq.RCVHWM, 1)
subscriber.set(zmq.RCVBUF, 4096)
subscriber.subscribe(b"")
subscriber.connect(sys.argv[1])
while True:
    subscriber.recv()
"""


def reset(hostile: socket.socket) -> None:
    """Close a connection so that the peer gets a reset."""
    hostile.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    hostile.close()


def shaken_hands(peer: socket.socket) -> None:
    peer.sendall(NULL_READY)
    heard = b""
    while b"READY" not in heard:
        heard += peer.recv(4096)


def test_one_byte_at_a_time(attacked: Attacked) -> None:
    with healthy(attacked), connected(attacked.pull) as slow:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in NULL_READY:
            slow.sendall(bytes((byte,)))
        heard = b""
        while b"READY" not in heard:
            heard += slow.recv(4096)


@pytest.mark.parametrize("name", ["replay", "publish", "pull"])
def test_hosts_that_disappear_are_noticed(attacked: Attacked, name: str) -> None:
    """A connection whose other end is gone is closed by the kernel, which probes it."""
    with connected(getattr(attacked, name)) as idle:
        until(lambda: is_probed(idle), lambda: None)
