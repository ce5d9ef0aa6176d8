"""STOMP peers that break the rules or ask for too much, over real sockets.

The server is a process of its own, so that its memory is not the attacker's: it grows by less than
64 MiB, and a healthy client beside is served.
"""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.heads.server_process import Process, beside
from tests.heads.stomp.raw_peers import Healthy, Peer, frame

MIB = 1 << 20
CONNECT_MS = 500


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path: Path = tmp_path_factory.mktemp("abused")
    settings: dict[str, object] = {"stomp__listen": "127.0.0.1:0", "durability": "disk"}
    with Process(path, **settings, stomp__connect_ms=CONNECT_MS) as process:
        # What it loads when it is first used is not the attacker's.
        healthy = Healthy(process.addresses["stomp"])
        for _ in range(100):
            healthy.check()
        healthy.close()
        yield process


@pytest.fixture
def address(server: Process) -> Iterator[str]:
    """Where to attack; a healthy client is served meanwhile, and after that."""
    healthy = Healthy(server.addresses["stomp"])
    with beside(healthy, server):
        yield server.addresses["stomp"]
    healthy.check()
    healthy.close()


@pytest.fixture
def peer(address: str) -> Iterator[Peer]:
    with Peer(address) as found:
        yield found.connect()


# Framing

NO_FRAMES = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a command in lower case": b"send\n\n\0",
    "a command without an end": b"S" * 100,
    "an unknown command": b"HELLO\n\n\0",
    "a million headers": b"SEND\n" + b"a:b\n" * 1_000_000,
    "many small headers": b"SEND\n" + b"a:b\n" * 1_000 + b"\n\0",
    "a header of a megabyte": b"SEND\na:" + b"x" * MIB,
    "a header without a colon": b"SEND\ndestination\n\n\0",
    "headers that are not UTF-8": b"SEND\ndestination:\xff\xfe\n\n\0",
    "no blank line": b"SEND\ndestination:/queue/a\0",
    "an unknown escape": b"SEND\ndestination:\\t\n\n\0",
    "half an escape": b"SEND\ndestination:/queue/a\nx:a\\\n\n\0",
    "content-length negative": b"SEND\ndestination:/queue/a\ncontent-length:-1\n\nhello\0",
    "content-length no number": b"SEND\ndestination:/queue/a\ncontent-length:ten\n\nhello\0",
    "content-length too large": b"SEND\ndestination:/queue/a\ncontent-length:99999999999\n\nhi\0",
    "content-length of a thousand digits": b"SEND\ncontent-length:" + b"9" * 1000 + b"\n\nhello\0",
    "content-length too short": b"SEND\ndestination:/queue/a\ncontent-length:3\n\nhello\0",
    "no NUL": b"SEND\ndestination:/queue/a\n\n" + b"x" * 17 * MIB,
    "a body where none may be": frame("BEGIN", b"body", transaction="t"),
    "connect again": frame("CONNECT", accept_version="1.2", host="/"),
    "a message for others": frame("MESSAGE", b"hi", destination="/queue/a"),
}


BEFORE_CONNECT = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a million headers": b"CONNECT\n" + b"a:b\n" * 1_000_000,
    "a header of a megabyte": b"CONNECT\na:" + b"x" * MIB,
    "content-length negative": b"CONNECT\ncontent-length:-1\n\n\0",
    "content-length too large": b"CONNECT\ncontent-length:99999999999\n\n\0",
    "no CONNECT": frame("SEND", b"x", destination="/queue/a"),
    "no common version": frame("CONNECT", accept_version="9.9", host="/"),
    "heart-beats that are no numbers": frame("CONNECT", accept_version="1.2", heart_beat="a,b"),
}
ERRORS = "mainstem_stomp_errors_total"


@contextlib.contextmanager
def refused(server: Process, message: str = "") -> Iterator[None]:
    """Expect that a peer is told of one error, and cut off: perhaps amid what it sends."""
    name = f'{ERRORS}{{message="{message}"}}' if message else ERRORS
    before = server.metric(name)
    with contextlib.suppress(OSError):
        yield
    assert server.metric(name) == before + 1


def say_all(peer: Peer, data: bytes) -> None:
    """Say something, and nothing more; whatever can be read must be one error."""
    peer.send(data)
    # So what the peer was told is not lost to a reset, unless it was cut off before.
    peer.socket.shutdown(socket.SHUT_WR)
    told = peer.last_words()
    assert [each.command for each in told if each.command != "RECEIPT"] == ["ERROR"]
    assert told[-1].headers["message"]
    assert told[-1].body


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_is_answered_with_an_error_and_the_end(
    data: bytes, server: Process, peer: Peer
) -> None:
    with refused(server):
        say_all(peer, data)


@pytest.mark.parametrize("data", BEFORE_CONNECT.values(), ids=BEFORE_CONNECT)
def test_who_does_not_connect_as_one_should_is_told_so(
    data: bytes, server: Process, address: str
) -> None:
    with Peer(address) as peer, refused(server):
        say_all(peer, data)


def test_a_million_heart_beats_and_nuls_are_nothing(peer: Peer) -> None:
    peer.send(b"\n\0\r\n" * 250_000)
    peer.say("BEGIN", transaction="t", receipt="r")

    assert peer.next().headers["receipt-id"] == "r"


def test_who_logs_in_byte_by_byte_is_cut_off_in_time(server: Process, address: str) -> None:
    with Peer(address) as peer, refused(server, "Not connected"):
        peer.socket.settimeout(CONNECT_MS / 1000 / 20)
        told = b""
        for byte in frame("CONNECT", accept_version="1.2", host="x" * 1_000):
            peer.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                told = peer.socket.recv(4096)
                break

        assert told.startswith(b"ERROR\n")


def test_a_frame_that_comes_byte_by_byte_is_a_frame(peer: Peer) -> None:
    for byte in frame("SEND", b"slowly", destination="/queue/slow", receipt="r"):
        peer.send(bytes([byte]))

    assert peer.next().command == "RECEIPT"


def test_crowds_that_are_in_the_middle_of_a_frame_cost_little(address: str) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(200):
            peer = stack.enter_context(Peer(address)).connect()
            peer.send(b"SEND\ndestination:/queue/a\ncontent-length:16000000\n\n" + bytes(65536))
            if number % 2:
                linger = struct.pack("ii", 1, 0)
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


# Overload


def send_many(peer: Peer, destination: str, count: int, size: int) -> None:
    body = bytes(size)
    for number in range(count):
        last = {"receipt": "last"} if number == count - 1 else {}
        peer.say("SEND", body, destination=destination, **last)
    assert peer.next().headers["receipt-id"] == "last"


@pytest.mark.parametrize("ack", ["auto", "client"])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_who_does_not_read_is_sent_little(address: str, peer: Peer, kind: str, ack: str) -> None:
    destination = f"/{kind}/unread.{kind}.{ack}"
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            slow = stack.enter_context(Peer(address, receive_buffer=4096)).connect()
            slow.say("SUBSCRIBE", id="s", destination=destination, ack=ack, receipt="r")
            assert slow.next().command == "RECEIPT"
        send_many(peer, destination, 100, MIB - 1024)


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_what_is_never_acknowledged_is_not_kept_in_memory(
    address: str, peer: Peer, kind: str
) -> None:
    destination = f"/{kind}/never.acked.{kind}"
    with Peer(address) as reader:
        reader.connect()
        reader.say("SUBSCRIBE", id="s", destination=destination, ack="client", receipt="r")
        assert reader.next().command == "RECEIPT"
        for _ in range(10):
            send_many(peer, destination, 20, MIB - 1024)
            for _ in range(20):
                assert reader.next().command == "MESSAGE"


def test_who_reads_no_receipts_is_read_no_more(address: str) -> None:
    with Peer(address, receive_buffer=4096) as peer:
        peer.connect()
        peer.socket.setblocking(False)
        data = b"".join(
            frame("SEND", b"x", destination="/queue/pipelined", receipt=f"{number:0100}")
            for number in range(10_000)
        )
        sent = 0
        # Until nothing more is taken, or it has said it ten times.
        for _ in range(10_000):
            try:
                sent += peer.socket.send(data[sent % len(data) :])
            except BlockingIOError:
                break


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_messages_given_back_again_and_again_do_no_harm(
    server: Process, peer: Peer, kind: str
) -> None:
    destination = f"/{kind}/refused.{kind}"
    peer.say("SUBSCRIBE", id="s", destination=destination, ack="client-individual", receipt="r")
    assert peer.next().command == "RECEIPT"
    peer.say("SEND", b"poison", destination=destination)
    # A queue gives up; whoever follows a topic may go on as long as it likes.
    for before in range(5 if kind == "queue" else 2_000):
        message = peer.next()
        assert message.headers["redelivered"] == ("true" if before else "false")
        peer.say("NACK", id=message.headers["ack"])
    if kind == "queue":
        with Peer(server.addresses["stomp"]) as other:
            other.connect()
            other.say("SUBSCRIBE", id="d", destination=f"/queue/refused.{kind}.dead")
            assert other.next().body == b"poison"


@pytest.mark.parametrize("which", ["unknown", "twice", "of another session", "no number"])
def test_an_ack_of_what_is_not_out_is_refused(address: str, peer: Peer, which: str) -> None:
    destination = f"/queue/acked.{which.replace(' ', '.')}"
    peer.say("SUBSCRIBE", id="s", destination=destination, ack="client")
    peer.say("SEND", b"1", destination=destination)
    known = peer.next().headers["ack"]
    named = {"unknown": known + "0", "twice": known, "no number": f"{known[:-1]}x"}
    if which == "twice":
        peer.say("ACK", id=known)
    with Peer(address) as other:
        other.connect()
        asking = other if which == "of another session" else peer
        asking.say("ACK", id=named.get(which, known), receipt="r")

        error = asking.next()

    assert (error.command, error.headers["message"]) == ("ERROR", "Message not found")
    assert error.headers["receipt-id"] == "r"


def subscribe(number: int) -> bytes:
    return frame("SUBSCRIBE", id=str(number), destination="/topic/crowd")


def subscribe_to_a_queue(number: int) -> bytes:
    return frame("SUBSCRIBE", id=str(number), destination="/queue/crowd", ack="client")


def ask_for_replies(number: int) -> bytes:
    return frame("SEND", b"?", destination="/queue/asked", reply_to=f"/temp-queue/{number}")


def begin(number: int) -> bytes:
    return frame("BEGIN", transaction=str(number))


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (subscribe, "Too many subscriptions"),
        (subscribe_to_a_queue, "Too many subscriptions"),
        (ask_for_replies, "Too many subscriptions"),
        (begin, "Too many transactions"),
    ],
)
def test_ten_thousand_of_anything_are_refused(
    server: Process, peer: Peer, one: Callable[[int], bytes], message: str
) -> None:
    with refused(server, message):
        say_all(peer, b"".join(one(number) for number in range(10_000)))


def test_transactions_left_open_hold_little(server: Process, peer: Peer) -> None:
    send = frame("SEND", bytes(MIB), destination="/queue/open", transaction="0")
    with refused(server, "Transaction too large"):
        for name in (b"%d" % number for number in range(60)):
            peer.send(frame("BEGIN", transaction=name.decode()))
            for _ in range(10):
                peer.send(send.replace(b"transaction:0", b"transaction:" + name))


def test_a_thousand_idle_connections_cost_little(address: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(Peer(address)).connect()
