"""AMQP peers that break the rules or ask for too much, over real sockets.

The server is a process of its own, so that its memory is not the attacker's: it grows by less than
64 MiB, a healthy client beside is served, and what was confirmed is there at the end.
"""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.amqp091.raw_peers import PERSISTENT, Healthy, Peer, publish, queue_declare
from tests.heads.amqp091.talking import HANDSHAKE, START_OK, content_header
from tests.heads.server_process import Process, beside

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    HEAD,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.fields import Value, long_string, short_string
from mainstem.heads.amqp091.methods import Bare, Method, encode_method
from mainstem.heads.amqp091.properties import NO_PROPERTIES

MIB = 1 << 20
HANDSHAKE_MS = 500
FRAME_MAX = 131_072
MAX_MESSAGE = 16 * MIB
KEPT = [b"kept %d" % number for number in range(100)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path: Path = tmp_path_factory.mktemp("abused")
    settings: dict[str, object] = {
        "amqp__listen": "127.0.0.1:0",
        "amqp__handshake_ms": HANDSHAKE_MS,
        "durability": "disk",
    }
    with Process(path / "data", log=path / "log", **settings) as process:
        address = process.addresses["amqp"]
        # What it loads when it is first used is not the attacker's.
        healthy = Healthy(address)
        for _ in range(100):
            healthy.check()
        healthy.close()
        with Peer(address).connect(1) as keeper:
            keeper.ask(methods.QueueDeclare(queue="kept", durable=True))
            keeper.ask(methods.ConfirmSelect())
            keeper.send(b"".join(publish("kept", body, PERSISTENT) for body in KEPT))
            confirmed(keeper, len(KEPT))
        yield process
        with Peer(address).connect(1) as reader:
            assert [reader.get("kept") for _ in KEPT] == KEPT
        assert "Traceback" not in process.logged()


def confirmed(peer: Peer, last: int) -> None:
    """Wait until all messages of a channel are confirmed."""
    while True:
        _, told = peer.next()
        assert isinstance(told, methods.BasicAck)
        if told.delivery_tag == last:
            return


@pytest.fixture
def address(server: Process) -> Iterator[str]:
    """Where to attack; a healthy client is served meanwhile, and after that."""
    found = server.addresses["amqp"]
    healthy = Healthy(found)
    with beside(healthy):
        yield found
    healthy.check()
    healthy.close()


@pytest.fixture
def peer(address: str) -> Iterator[Peer]:
    with Peer(address) as found:
        yield found.connect(1)


@contextlib.contextmanager
def cut_off(server: Process, peer: Peer) -> Iterator[None]:
    """Expect that the log says of a peer that it was cut off, and why."""
    yield
    (line,) = [each for each in server.logged().splitlines() if f"{peer.name}: " in each]
    assert line.partition(f"{peer.name}: ")[2]


# Framing

NO_HEADERS = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "a Kafka request": b"\0\0\0\x0a\0\x12\0\0\0\0\0\0\xff\xff",
    "AMQP 1.0": b"AMQP\0\1\0\0",
    "AMQP 1.0 with SASL": b"AMQP\3\1\0\0",
    "AMQP 0-8": b"AMQP\1\1\x08\0",
    "AMQP 0-10": b"AMQP\1\1\0\x0a",
    "a frame": method_frame(0, START_OK),
    "zeros": bytes(100),
}


@pytest.mark.parametrize("data", NO_HEADERS.values(), ids=NO_HEADERS)
def test_another_protocol_is_told_which_one_is_spoken(
    data: bytes, server: Process, address: str
) -> None:
    with Peer(address) as peer, cut_off(server, peer):
        peer.send(data)
        peer.socket.shutdown(socket.SHUT_WR)

        assert peer.socket.recv(100) == PROTOCOL_HEADER
        assert peer.socket.recv(100) == b""


@pytest.mark.parametrize("size", range(len(HANDSHAKE))[:: len(HANDSHAKE) // 12])
def test_who_goes_during_the_handshake_leaves_nothing(address: str, size: int) -> None:
    for _ in range(10):
        with Peer(address) as peer:
            peer.send(HANDSHAKE[:size])
        with Peer(address) as peer:
            peer.send(HANDSHAKE[:size])
            peer.reset()


def connecting(*said: bytes | Method | Bare) -> bytes:
    """Return the beginning of a connection."""
    frames = [each if isinstance(each, bytes) else method_frame(0, each) for each in said]
    return PROTOCOL_HEADER + b"".join(frames)


TUNE_OK = methods.ConnectionTuneOk
IN_HANDSHAKE = {
    "open before a login": (connecting(methods.ConnectionOpen()), ReplyCode.CHANNEL_ERROR),
    "an open channel before a login": (
        connecting(method_frame(1, methods.ChannelOpen())),
        ReplyCode.UNEXPECTED_FRAME,
    ),
    "a body before a login": (connecting(frame(BODY, 0, b"x")), ReplyCode.UNEXPECTED_FRAME),
    "an unknown mechanism": (
        connecting(methods.ConnectionStartOk({}, "SCRAM-SHA-999", b"")),
        ReplyCode.COMMAND_INVALID,
    ),
    "PLAIN without NULs": (
        connecting(methods.ConnectionStartOk({}, "PLAIN", b"guest")),
        ReplyCode.SYNTAX_ERROR,
    ),
    "PLAIN as somebody else": (
        connecting(methods.ConnectionStartOk({}, "PLAIN", b"root\0guest\0guest")),
        ReplyCode.SYNTAX_ERROR,
    ),
    "AMQPLAIN that is no table": (
        connecting(methods.ConnectionStartOk({}, "AMQPLAIN", b"\xff" * 100)),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a password of 100 KiB and a wrong frame end": (
        connecting(methods.ConnectionStartOk({}, "PLAIN", b"\0u\0" + b"p" * 100_000))[:-1] + b"x",
        ReplyCode.FRAME_ERROR,
    ),
    "a login over the limit": (
        connecting(methods.ConnectionStartOk({}, "PLAIN", b"\0u\0" + b"p" * FRAME_MAX)),
        ReplyCode.FRAME_ERROR,
    ),
    "two logins": (connecting(START_OK, START_OK), ReplyCode.CHANNEL_ERROR),
    "frame_max 1": (connecting(START_OK, TUNE_OK(2047, 1, 0)), ReplyCode.NOT_ALLOWED),
    "frame_max 4095": (connecting(START_OK, TUNE_OK(2047, 4095, 0)), ReplyCode.NOT_ALLOWED),
    "frame_max over ours": (
        connecting(START_OK, TUNE_OK(2047, 2**32 - 1, 0)),
        ReplyCode.NOT_ALLOWED,
    ),
    "channel_max over ours": (
        connecting(START_OK, TUNE_OK(65535, FRAME_MAX, 0)),
        ReplyCode.NOT_ALLOWED,
    ),
}


@pytest.mark.parametrize(("data", "code"), IN_HANDSHAKE.values(), ids=IN_HANDSHAKE)
def test_who_does_not_connect_as_one_should_is_told_so(
    data: bytes, code: ReplyCode, server: Process, address: str
) -> None:
    with Peer(address) as peer, cut_off(server, peer):
        peer.send(data)

        assert closed(peer) == code


def closed(peer: Peer) -> ReplyCode:
    """Return why the server closes the connection, and agree with it."""
    while True:
        _, told = peer.next()
        if isinstance(told, methods.ConnectionClose):
            break
    assert told.reply_text.startswith(f"{ReplyCode(told.reply_code).name} - ")
    with contextlib.suppress(OSError):
        peer.say(Bare.CONNECTION_CLOSE_OK, channel=0)
        assert peer.last_words() == []
    return ReplyCode(told.reply_code)


@pytest.mark.parametrize("frame_max", [0, 4096, FRAME_MAX])
def test_a_limit_of_0_is_ours(address: str, frame_max: int) -> None:
    with Peer(address) as peer:
        peer.send(connecting(START_OK, TUNE_OK(0, frame_max, 0), methods.ConnectionOpen()))
        for _ in range(3):
            peer.next()
        for channel in (1, 2047, 65535):
            peer.ask(methods.ChannelOpen(), channel=channel)
        peer.declare(f"frames.{frame_max}")
        peer.send(publish(f"frames.{frame_max}", bytes(4000)))

        assert peer.get(f"frames.{frame_max}") == bytes(4000)


def test_who_logs_in_byte_by_byte_is_cut_off_in_time(server: Process, address: str) -> None:
    with Peer(address) as peer, cut_off(server, peer):
        peer.socket.settimeout(HANDSHAKE_MS / 1000 / 20)
        told = b""
        for byte in HANDSHAKE:
            peer.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                told = peer.socket.recv(4096)
                if not told:
                    break

        assert told == b""


def deep(depth: int) -> bytes:
    """Return a table with others in it."""
    inner = b""
    for _ in range(depth):
        inner = b"\1kF" + long_string(inner)
    return long_string(inner)


def declare(arguments: bytes) -> bytes:
    """Return a QueueDeclare with arguments that need not be a table."""
    whole = encode_method(methods.QueueDeclare(queue="malformed"))
    return frame(METHOD, 1, whole[:-4] + arguments)


def a_message(size: int, *parts: bytes, properties: bytes = NO_PROPERTIES) -> bytes:
    """Return a message whose header may lie."""
    method = method_frame(1, methods.BasicPublish(routing_key="nowhere"))
    header = frame(HEADER, 1, content_header(size, properties))
    return method + header + b"".join(frame(BODY, 1, part) for part in parts)


def with_property(flags: int, value: bytes) -> bytes:
    return a_message(0, properties=flags.to_bytes(2, "big") + value)


HEADERS_FLAG, CONTENT_TYPE, TIMESTAMP = 0x2000, 0x8000, 0x0040
PUBLISH = method_frame(1, methods.BasicPublish(routing_key="nowhere"))
NO_FRAMES = {
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n" + bytes(100), ReplyCode.FRAME_ERROR),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ReplyCode.FRAME_ERROR),
    "no frame end": (method_frame(1, Bare.TX_SELECT)[:-1] + b"\0", ReplyCode.FRAME_ERROR),
    "length 0": (frame(METHOD, 1, b""), ReplyCode.SYNTAX_ERROR),
    "length -1": (HEAD.pack(METHOD, 1, 2**32 - 1) + bytes(99), ReplyCode.FRAME_ERROR),
    "length 2^31 - 1": (HEAD.pack(METHOD, 1, 2**31 - 1) + bytes(99), ReplyCode.FRAME_ERROR),
    "a frame over the limit": (frame(BODY, 1, bytes(FRAME_MAX + 1)), ReplyCode.FRAME_ERROR),
    "a frame of an unknown type": (frame(4, 1, b"x"), ReplyCode.FRAME_ERROR),
    "a heartbeat on a channel": (frame(HEARTBEAT, 1, b""), ReplyCode.UNEXPECTED_FRAME),
    "a heartbeat that says something": (frame(HEARTBEAT, 0, b"x"), ReplyCode.FRAME_ERROR),
    "an unopened channel": (
        method_frame(65535, methods.QueueDeclare()),
        ReplyCode.CHANNEL_ERROR,
    ),
    "closing an unopened channel": (
        method_frame(2, methods.ChannelClose()),
        ReplyCode.CHANNEL_ERROR,
    ),
    "a channel twice": (method_frame(1, methods.ChannelOpen()), ReplyCode.CHANNEL_ERROR),
    "a channel's method on channel 0": (
        method_frame(0, methods.QueueDeclare()),
        ReplyCode.CHANNEL_ERROR,
    ),
    "channel 0 opened": (method_frame(0, methods.ChannelOpen()), ReplyCode.CHANNEL_ERROR),
    "a connection's method on a channel": (
        method_frame(1, methods.ConnectionOpen()),
        ReplyCode.COMMAND_INVALID,
    ),
    "a server's method": (method_frame(1, methods.BasicDeliver()), ReplyCode.COMMAND_INVALID),
    "an unknown class": (frame(METHOD, 1, b"\0\x63\0\x0a"), ReplyCode.COMMAND_INVALID),
    "an unknown method": (frame(METHOD, 1, b"\0\x3c\xff\xff"), ReplyCode.COMMAND_INVALID),
    "half a method id": (frame(METHOD, 1, b"\0\x3c\0"), ReplyCode.SYNTAX_ERROR),
    "trailing bytes": (
        frame(METHOD, 1, encode_method(methods.BasicAck(1)) + b"\0"),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a header without a method": (frame(HEADER, 1, content_header(1)), ReplyCode.UNEXPECTED_FRAME),
    "a body without a header": (PUBLISH + frame(BODY, 1, b"x"), ReplyCode.UNEXPECTED_FRAME),
    "a body without a method": (frame(BODY, 1, b"x"), ReplyCode.UNEXPECTED_FRAME),
    "a method instead of a header": (PUBLISH + PUBLISH, ReplyCode.UNEXPECTED_FRAME),
    "a method instead of a body": (a_message(1) + PUBLISH, ReplyCode.UNEXPECTED_FRAME),
    "two headers": (a_message(1) + frame(HEADER, 1, content_header(1)), ReplyCode.UNEXPECTED_FRAME),
    "a header of another class": (
        PUBLISH + frame(HEADER, 1, content_header(0, class_id=50)),
        ReplyCode.UNEXPECTED_FRAME,
    ),
    "a header with a weight": (
        PUBLISH + frame(HEADER, 1, content_header(0, weight=1)),
        ReplyCode.UNEXPECTED_FRAME,
    ),
    "a header that is too short": (PUBLISH + frame(HEADER, 1, b"\0\x3c"), ReplyCode.SYNTAX_ERROR),
    "more body than the header said": (a_message(2, b"xxx"), ReplyCode.FRAME_ERROR),
    "more parts than the header said": (
        a_message(2, b"x", b"xx"),
        ReplyCode.FRAME_ERROR,
    ),
    "a table 500 deep": (declare(deep(500)), ReplyCode.SYNTAX_ERROR),
    "a table 10,000 deep": (declare(deep(10_000)), ReplyCode.SYNTAX_ERROR),
    "an unknown field type": (declare(long_string(b"\1kZ")), ReplyCode.SYNTAX_ERROR),
    "a table past the frame": (declare(b"\x7f\xff\xff\xff"), ReplyCode.SYNTAX_ERROR),
    "a string past its table": (
        declare(long_string(b"\1kS\0\0\1\0")),
        ReplyCode.SYNTAX_ERROR,
    ),
    "an array past its table": (
        declare(long_string(b"\1kA\xff\xff\xff\xff")),
        ReplyCode.SYNTAX_ERROR,
    ),
    "half a number": (declare(long_string(b"\1kl\0\0")), ReplyCode.SYNTAX_ERROR),
    "a short string past the frame": (
        frame(METHOD, 1, b"\0\x32\0\x0a\0\0\xffq"),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a queue that is not UTF-8": (
        frame(METHOD, 1, b"\0\x32\0\x0a\0\0\2\xff\xfe\0\0\0\0\0"),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a queue with a lone surrogate": (
        frame(METHOD, 1, b"\0\x32\0\x0a\0\0\3\xed\xa0\x80\0\0\0\0\0"),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a routing key that is not UTF-8": (
        frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0\2\xff\xfe\0") + frame(HEADER, 1, content_header(0)),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a header's name with a lone surrogate": (
        with_property(HEADERS_FLAG, long_string(b"\3\xed\xa0\x80V")),
        ReplyCode.SYNTAX_ERROR,
    ),
    "a content type that is not UTF-8": (
        with_property(CONTENT_TYPE, b"\2\xff\xfe"),
        ReplyCode.SYNTAX_ERROR,
    ),
    "headers 500 deep": (with_property(HEADERS_FLAG, deep(500)), ReplyCode.SYNTAX_ERROR),
    "a property past the frame": (with_property(CONTENT_TYPE, b"\xff"), ReplyCode.SYNTAX_ERROR),
    "a property that is missing": (with_property(CONTENT_TYPE, b""), ReplyCode.SYNTAX_ERROR),
    "half a timestamp": (with_property(TIMESTAMP, b"\0\0\0\0"), ReplyCode.SYNTAX_ERROR),
    "properties that go on": (with_property(1, b"\0\0"), ReplyCode.SYNTAX_ERROR),
    "more properties than flags": (with_property(0, b"\0"), ReplyCode.SYNTAX_ERROR),
}


@pytest.mark.parametrize(("data", "code"), NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_malformed_is_answered_with_an_error_and_the_end(
    data: bytes, code: ReplyCode, server: Process, peer: Peer
) -> None:
    with cut_off(server, peer):
        peer.send(data)

        assert closed(peer) == code


# Messages

NAMES = {
    "a path upwards": "../../etc/passwd",
    "an escaped path": "%2e%2e%2f",
    "dots": "..",
    "a dot": ".",
    "an internal topic": "__mainstem_queues",
    "NUL": "a\0b",
    "a tab and a bell": "a\tb\a",
    "right to left": "\u202eגמל",
    "look-alikes": "\u0440aypal",
    "an emoji": "🐰",
    "255 bytes": "x" * 255,
    "255 bytes that are escaped": "é" * 127,
    "an escape of ours": "a._20b",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_queues_and_exchanges_may_have_any_name(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.ask(methods.ExchangeDeclare(exchange=name))
    peer.ask(methods.QueueBind(queue=name, exchange=name, routing_key=name))

    peer.send(publish(name, b"routed", exchange=name) + publish(name, b"direct"))

    assert [peer.get(name), peer.get(name)] == [b"routed", b"direct"]
    assert peer.ask(methods.QueueDelete(queue=name)) == methods.QueueDeleteOk(0)
    assert peer.ask(methods.ExchangeDelete(exchange=name)) is Bare.EXCHANGE_DELETE_OK


BODIES = {
    "empty": b"",
    "NUL": b"\0",
    "line ends": b"\r\n\n",
    "right to left": "\u202eגמל".encode(),
    "lone surrogates": b"\xed\xa0\x80",
    "frame ends": b"\xce" * 1000,
    "a frame": method_frame(0, methods.ConnectionClose()),
    "a pickle": b"\x80\x04\x95\x0f\0\0\0\0\0\0\0\x8c\x02os\x8c\x06system\x93.",
    "a Java object": b"\xac\xed\0\x05sr\0\x11java.util.HashMap",
    "a body of the size of a frame": bytes(FRAME_MAX - 8),
    "one byte more": bytes(FRAME_MAX - 7),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_may_be_any_bytes(peer: Peer, body: bytes) -> None:
    peer.declare("bodies")
    peer.send(publish("bodies", body))

    assert peer.get("bodies") == body


def test_a_message_at_the_limit_is_taken(peer: Peer) -> None:
    peer.declare("largest")
    body = bytes(MAX_MESSAGE)

    peer.send(publish("largest", body))

    assert peer.get("largest") == body


@pytest.mark.parametrize("size", [MAX_MESSAGE + 1, 2**31, 2**32, 2**63, 2**64 - 1])
def test_a_message_over_the_limit_closes_its_channel(peer: Peer, size: int) -> None:
    peer.send(a_message(size, bytes(1000)))

    assert refused(peer) == ReplyCode.PRECONDITION_FAILED
    # What was under way for the channel is ignored, and it can be opened again.
    peer.send(frame(BODY, 1, bytes(1000)))
    peer.say(Bare.CHANNEL_CLOSE_OK)
    assert peer.ask(methods.ChannelOpen()) == methods.ChannelOpenOk()


def refused(peer: Peer, channel: int = 1) -> ReplyCode:
    """Return why the server closes a channel."""
    while True:
        found, told = peer.next()
        assert not isinstance(told, methods.ConnectionClose), told
        if isinstance(told, methods.ChannelClose):
            break
    assert found == channel
    assert told.reply_text.startswith(f"{ReplyCode(told.reply_code).name} - ")
    return ReplyCode(told.reply_code)


TABLES = {
    "a thousand headers": b"".join(b"\x04%04dS\0\0\0\1x" % number for number in range(1_000)),
    "a header of 100 KiB": b"\1kS" + long_string(b"x" * 100 * 1024),
    "bytes that are not UTF-8": b"\1kS" + long_string(b"\xff\xfe\xed\xa0\x80"),
    "decimal scale 255": b"\1kD\xff\x7f\xff\xff\xff",
    "not a number": b"\1kd\x7f\xf8\0\0\0\0\0\0",
    "infinity": b"\1kf\x7f\x80\0\0",
    "the same header twice": b"\1kV\1kt\1",
    "a header without a name": b"\0V",
    "a name of 255 bytes": b"\xff" + b"x" * 255 + b"V",
    "the latest timestamp": b"\1kT" + b"\xff" * 8,
    "names of ours": b"\x0fmainstem-nativeS\0\0\0\1x\x0camqp-versionS\0\0\0\1x",
    "64 deep": deep(63)[4:],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_headers_come_back_as_they_were(peer: Peer, table: bytes) -> None:
    properties = HEADERS_FLAG.to_bytes(2, "big") + long_string(table)
    peer.declare("headers")
    peer.send(publish("headers", b"body", properties))

    peer.say(methods.BasicGet(queue="headers", no_ack=True))

    assert isinstance(peer.next()[1], methods.BasicGetOk)
    assert [peer.next()[1], peer.next()[1]] == [content_header(4, properties), b"body"]


PROPERTIES = {
    "expiration that is no number": (0x0100, short_string("soon")),
    "expiration negative": (0x0100, short_string("-1")),
    "expiration beyond all times": (0x0100, short_string("9" * 200)),
    "10,001 headers": (
        HEADERS_FLAG,
        long_string(b"".join(b"\5%05dt\1" % it for it in range(10_001))),
    ),
    "of another user": (0x0010, short_string("root")),
    "copies to a number": (HEADERS_FLAG, long_string(b"\2CCI\0\0\0\1")),
    "copies to a string": (HEADERS_FLAG, long_string(b"\3BCCS\0\0\0\1x")),
    "replies to nobody": (0x0200, short_string("amq.rabbitmq.reply-to")),
}


@pytest.mark.parametrize(("flag", "value"), PROPERTIES.values(), ids=PROPERTIES)
def test_properties_that_cannot_be_close_the_channel(peer: Peer, flag: int, value: bytes) -> None:
    peer.declare("properties")
    peer.send(publish("properties", b"x", flag.to_bytes(2, "big") + value))

    assert refused(peer) == ReplyCode.PRECONDITION_FAILED


ARGUMENTS: dict[str, dict[str, Value]] = {
    "message_ttl": {"message_ttl": -1},
    "message_ttl of a thousand years": {"message_ttl": 2**50},
    "message_ttl of a string": {"message_ttl": "1000"},
    "expires": {"expires": 0},
    "max_length": {"max_length": -1},
    "max_priority": {"max_priority": 256},
    "overflow": {"overflow": "explode"},
    "dead letters without an exchange": {"dead_letter_routing_key": "x"},
    "queue_type": {"queue_type": "stream"},
    "delivery_limit": {"delivery_limit": -2},
    "a topic upwards": {"mainstem_topic": "../x"},
    "an internal topic": {"mainstem_topic": "__mainstem_queues"},
    "a topic that is not there": {"mainstem_topic": "no.such.topic"},
    "durability": {"mainstem_durability": "eternal"},
    "unknown": {"make_coffee": True},
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_close_the_channel(
    peer: Peer, arguments: dict[str, Value]
) -> None:
    peer.say(queue_declare("arguments", **arguments))

    assert refused(peer) in (ReplyCode.PRECONDITION_FAILED, ReplyCode.NOT_FOUND)
