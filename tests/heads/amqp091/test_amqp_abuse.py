"""AMQP peers that break the rules or ask for too much, over real sockets.

The server is a process of its own, so that its memory is not the attacker's: it grows by less than
64 MiB, a healthy client beside is served, and what was confirmed is there at the end.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.amqp091.raw_peers import (
    PART_BYTES,
    PERSISTENT,
    Healthy,
    Peer,
    Said,
    publish,
    queue_declare,
)
from tests.heads.amqp091.talking import HANDSHAKE, START_OK, content_header
from tests.heads.server_process import Process, beside, until

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
from mainstem.heads.amqp091.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    encode_properties,
)

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
        "amqp__max_consumers": 1_000,
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
    # Nothing is left of the attackers.
    until(lambda: server.metric("mainstem_amqp_channels") == 1, healthy.check)
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


def a_message(
    size: int, *parts: bytes, properties: bytes = NO_PROPERTIES, channel: int = 1
) -> bytes:
    """Return a message whose header may lie."""
    method = method_frame(channel, methods.BasicPublish(routing_key="nowhere"))
    header = frame(HEADER, channel, content_header(size, properties))
    return method + header + b"".join(frame(BODY, channel, part) for part in parts)


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


# Overload


def publish_many(peer: Peer, queue: str, count: int, size: int) -> None:
    """Publish messages, and wait until the queue has them."""
    body = bytes(size)
    for _ in range(count):
        peer.send(publish(queue, body))
    seen(peer, queue)


def seen(peer: Peer, queue: str) -> int:
    """Return how many messages a queue has, once it has all that were published."""
    told = peer.ask(methods.QueueDeclare(queue=queue, passive=True))
    assert isinstance(told, methods.QueueDeclareOk)
    return told.message_count


@pytest.mark.parametrize("no_ack", [True, False], ids=["no_ack", "ack"])
def test_who_does_not_read_is_sent_little(address: str, peer: Peer, *, no_ack: bool) -> None:
    queue = f"unread.{no_ack}"
    peer.declare(queue)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            slow = stack.enter_context(Peer(address, receive_buffer=4096)).connect(1)
            slow.ask(methods.BasicConsume(queue=queue, no_ack=no_ack))
        publish_many(peer, queue, 100, MIB - 1024)


def test_what_is_never_acknowledged_is_not_kept_in_memory(address: str, peer: Peer) -> None:
    peer.declare("never.acked")
    with Peer(address).connect(1) as reader:
        reader.ask(methods.BasicConsume(queue="never.acked"))
        for _ in range(5):
            publish_many(peer, "never.acked", 20, MIB - 1024)
            for _ in range(20):
                assert len(reader.message()[1]) == MIB - 1024


def test_prefetch_0_on_many_messages_costs_little(address: str, peer: Peer) -> None:
    peer.declare("prefetch.0")
    messages = publish("prefetch.0", b"x") * 1000
    with Peer(address).connect(1) as reader:
        reader.ask(methods.BasicQos())
        reader.ask(methods.BasicConsume(queue="prefetch.0"))
        for _ in range(30):
            peer.send(messages)
            for _ in range(1000):
                reader.message()


def test_who_reads_no_answers_is_read_no_more(address: str) -> None:
    with Peer(address, receive_buffer=4096).connect(1) as peer:
        flood(peer, method_frame(1, methods.QueueDeclare(queue="kept", passive=True)) * 10_000)


def test_who_reads_no_returned_messages_is_read_no_more(address: str) -> None:
    with Peer(address, receive_buffer=4096).connect(1) as peer:
        flood(peer, publish("nowhere", bytes(100_000), mandatory=True) * 10)


def test_who_reads_no_messages_that_it_gets_is_given_no_more(address: str, peer: Peer) -> None:
    peer.ask(methods.QueueDeclare(queue="gotten", durable=True))
    publish_many(peer, "gotten", 100, MIB - 1024)
    with Peer(address, receive_buffer=4096).connect(1) as greedy:
        # The first waits for the message before it to be durable, and all others behind it.
        get = method_frame(1, methods.BasicGet(queue="gotten"))
        flood(greedy, publish("gotten", b"x", PERSISTENT) + get * 1000)


def flood(peer: Peer, data: bytes) -> None:
    """Send until nothing more is taken, or it was sent ten times."""
    peer.socket.setblocking(False)
    sent, idle = 0, 0
    while sent < 10 * len(data) and idle < 20:
        try:
            sent += peer.socket.send(data[sent % len(data) :])
            idle = 0
        except BlockingIOError:
            idle += 1
            time.sleep(0.01)


@pytest.mark.parametrize("resets", [True, False])
def test_crowds_that_are_in_the_middle_of_a_message_cost_little(
    address: str, *, resets: bool
) -> None:
    begun = a_message(16 * MIB, *[bytes(PART_BYTES)] * 8)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            peer = stack.enter_context(Peer(address)).connect(1)
            peer.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                peer.socket.send(begun + HEAD.pack(BODY, 1, PART_BYTES))
            if resets:
                peer.reset()


def test_many_begun_messages_of_one_connection_cost_little(server: Process, address: str) -> None:
    with Peer(address).connect(*range(1, 201)) as peer, cut_off(server, peer):
        for channel in range(1, 201):
            begun = a_message(MIB, *[bytes(PART_BYTES)] * 7, channel=channel)
            with contextlib.suppress(OSError):
                peer.send(begun)

        assert closed(peer) == ReplyCode.RESOURCE_ERROR


@pytest.mark.parametrize("confirms", [True, False])
def test_publishing_at_full_speed_does_not_fill_the_memory(peer: Peer, *, confirms: bool) -> None:
    queue = f"fast.{confirms}"
    peer.ask(methods.QueueDeclare(queue=queue, durable=True))
    if confirms:
        peer.ask(methods.ConfirmSelect())
    message = publish(queue, bytes(MIB), PERSISTENT)
    for _ in range(200):
        peer.send(message)
    if confirms:
        confirmed(peer, 200)
    else:
        seen(peer, queue)


def test_transactions_left_open_hold_little(server: Process, peer: Peer) -> None:
    peer.declare("open")
    peer.ask(Bare.TX_SELECT)
    message = publish("open", bytes(MIB))
    with contextlib.suppress(OSError):
        for _ in range(200):
            peer.send(message)

    assert refused(peer) == ReplyCode.PRECONDITION_FAILED


@pytest.mark.parametrize("which", ["unknown", "twice", "of another channel", "none", "all before"])
def test_an_ack_of_what_is_not_out_closes_the_channel(peer: Peer, which: str) -> None:
    peer.ask(methods.ChannelOpen(), channel=2)
    peer.ask(methods.QueueDeclare(queue="acked"))
    peer.ask(methods.QueuePurge(queue="acked"))
    peer.send(publish("acked", b"x"))
    peer.say(methods.BasicGet(queue="acked"))
    tag = peer.message()[0].delivery_tag
    wrong = {"unknown": tag + 1, "none": 0, "all before": tag + 1}.get(which, tag)
    if which == "twice":
        peer.say(methods.BasicAck(tag))
    channel = 2 if which == "of another channel" else 1

    peer.say(methods.BasicAck(wrong, which == "all before"), channel=channel)

    assert refused(peer, channel) == ReplyCode.PRECONDITION_FAILED
    # What was with the channel is in its queue again.
    left = peer.ask(methods.QueuePurge(queue="acked"), channel=3 - channel)
    assert left == methods.QueuePurgeOk(int(which in ("unknown", "none", "all before")))


def test_messages_requeued_again_and_again_do_no_harm(peer: Peer) -> None:
    peer.declare("requeued")
    peer.send(publish("requeued", b"again"))
    peer.ask(methods.BasicConsume(queue="requeued"))
    for before in range(2_000):
        delivery, body = peer.message()
        assert (delivery.redelivered, body) == (before > 0, b"again")
        peer.say(methods.BasicNack(delivery.delivery_tag, False, True))


def test_a_poison_message_is_given_up(peer: Peer) -> None:
    peer.declare("poisoned.dead")
    peer.declare(
        "poisoned",
        delivery_limit=5,
        dead_letter_exchange="",
        dead_letter_routing_key="poisoned.dead",
    )
    peer.send(publish("poisoned", b"poison"))
    peer.ask(methods.BasicConsume(queue="poisoned"))
    for _ in range(6):
        delivery, _ = peer.message()
        peer.say(methods.BasicReject(delivery.delivery_tag, True))

    assert eventually(peer, "poisoned.dead") == b"poison"


def eventually(peer: Peer, queue: str) -> bytes:
    """Take a message from a queue once there is one."""
    while True:
        peer.say(methods.BasicGet(queue=queue, no_ack=True))
        _, told = peer.next()
        if isinstance(told, methods.BasicGetOk):
            peer.next()
            found = peer.next()[1]
            assert isinstance(found, bytes)
            return found
        time.sleep(0.01)


# Crowds


def test_a_thousand_idle_connections_cost_little(address: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(Peer(address)).connect(1)


def test_a_thousand_channels_cost_little(peer: Peer) -> None:
    numbers = range(2, 1_002)
    peer.send(b"".join(method_frame(each, methods.ChannelOpen()) for each in numbers))

    for number in numbers:
        assert peer.next() == (number, methods.ChannelOpenOk())


def test_more_channels_than_were_agreed_are_refused(server: Process, peer: Peer) -> None:
    opened = b"".join(method_frame(each, methods.ChannelOpen()) for each in range(2, 2_050))
    with cut_off(server, peer):
        peer.send(opened)

        assert closed(peer) == ReplyCode.NOT_ALLOWED


def test_a_thousand_queues_and_bindings_cost_little(peer: Peer) -> None:
    peer.ask(methods.ExchangeDeclare(exchange="crowd", type="fanout"))
    names = [f"crowd.{number}" for number in range(1_000)]
    for each in names:
        peer.say(
            methods.QueueDeclare(queue=each, durable=True, nowait=True),
            methods.QueueBind(queue=each, exchange="crowd", nowait=True),
        )
    peer.send(publish("", b"to all", exchange="crowd"))
    assert seen(peer, names[-1]) == 1
    # One message becomes many.
    peer.send(publish("", bytes(100_000), exchange="crowd"))
    assert seen(peer, names[-1]) == 2
    peer.send(publish("", b"x", exchange="crowd") * 20)
    assert seen(peer, names[0]) == 22
    for each in names:
        peer.say(methods.QueueDelete(queue=each, nowait=True))
    assert peer.ask(methods.ExchangeDelete(exchange="crowd", if_unused=True)) is (
        Bare.EXCHANGE_DELETE_OK
    )


def test_a_thousand_exclusive_queues_go_with_their_connection(address: str, peer: Peer) -> None:
    with Peer(address).connect(1) as owner:
        for number in range(1_000):
            owner.say(methods.QueueDeclare(queue=f"own.{number}", exclusive=True, nowait=True))
        assert seen(owner, "own.999") == 0
    while True:
        peer.say(methods.QueueDeclare(queue="own.999", passive=True))
        why = refused(peer)
        peer.say(Bare.CHANNEL_CLOSE_OK)
        peer.ask(methods.ChannelOpen())
        if why == ReplyCode.NOT_FOUND:
            break
        assert why == ReplyCode.RESOURCE_LOCKED


def test_more_consumers_than_are_allowed_close_the_connection(server: Process, peer: Peer) -> None:
    peer.declare("consumed")
    with cut_off(server, peer):
        peer.send(method_frame(1, methods.BasicConsume(queue="consumed")) * 1_001)
        told = [peer.next()[1] for _ in range(1_000)]

        assert all(isinstance(each, methods.BasicConsumeOk) for each in told)
        assert closed(peer) == ReplyCode.NOT_ALLOWED


def test_a_consumer_with_a_priority_that_is_none_is_refused(peer: Peer) -> None:
    peer.declare("consumed")
    peer.say(methods.BasicConsume(queue="consumed", arguments={"x-priority": "high"}))

    assert refused(peer) == ReplyCode.PRECONDITION_FAILED


def test_ten_thousand_routing_keys_cost_little(peer: Peer) -> None:
    peer.declare("keys")
    peer.ask(methods.QueueBind(queue="keys", exchange="amq.topic", routing_key="#"))
    for number in range(100):
        peer.send(
            b"".join(
                publish(f"{number * 100 + each:0250}", exchange="amq.topic") for each in range(100)
            )
        )
    assert seen(peer, "keys") == 10_000


def test_two_hundred_virtual_hosts_cost_little(address: str) -> None:
    for number in range(200):
        opened = connecting(START_OK, TUNE_OK(), methods.ConnectionOpen(f"vhost {number}"))
        with Peer(address) as peer:
            peer.send(opened + method_frame(1, methods.ChannelOpen()))
            peer.send(method_frame(1, methods.ExchangeDeclare(exchange="e")))
            while peer.next()[1] is not Bare.EXCHANGE_DECLARE_OK:
                pass


# Circles and blow-ups


def test_exchanges_bound_in_a_circle_route_once(peer: Peer) -> None:
    peer.declare("circle")
    names = ["circle.0", "circle.1", "circle.2"]
    for each in names:
        peer.ask(methods.ExchangeDeclare(exchange=each, type="fanout"))
    for source, destination in zip(names, [*names[1:], names[0]], strict=True):
        peer.ask(methods.ExchangeBind(source=source, destination=destination))
        peer.ask(methods.QueueBind(queue="circle", exchange=source))
    peer.ask(methods.ExchangeBind(source="circle.0", destination="circle.0"))

    peer.send(publish("", b"once", exchange="circle.0"))

    assert seen(peer, "circle") == 1


def test_alternate_exchanges_in_a_circle_lead_nowhere(peer: Peer) -> None:
    for name, other in (("alternate.0", "alternate.1"), ("alternate.1", "alternate.0")):
        arguments = {"alternate-exchange": other}
        peer.ask(methods.ExchangeDeclare(exchange=name, arguments=arguments))

    peer.send(publish("", b"", exchange="alternate.0", mandatory=True))

    assert isinstance(peer.next()[1], methods.BasicReturn)


@pytest.mark.parametrize("through", ["itself", "another"])
def test_dead_letters_in_a_circle_come_to_an_end(server: Process, peer: Peer, through: str) -> None:
    first, second = f"cycle.{through}.1", f"cycle.{through}.2"
    targets = {first: first} if through == "itself" else {first: second, second: first}
    for queue, target in targets.items():
        peer.declare(queue, message_ttl=1, dead_letter_exchange="", dead_letter_routing_key=target)
    peer.send(publish(first, b"round and round") * 100)
    while seen(peer, first) + (seen(peer, second) if second in targets else 0):
        time.sleep(0.01)
    before = server.cpu_s()
    time.sleep(0.3)
    assert server.cpu_s() - before < 0.3


WILDCARDS = {
    "many #": ["#." * 120 + "x"],
    "many # and words": [".".join(["#", "a"] * 60)],
    "words in all orders": [
        ".".join(f"#.{'ab'[number * 2_654_435_761 >> at & 1]}" for at in range(60))
        for number in range(1, 1_001)
    ],
    "many * and #": [".".join(["#", "*"] * at) for at in range(1, 60)],
}


@pytest.mark.parametrize("which", WILDCARDS)
def test_wildcards_do_not_blow_up(peer: Peer, which: str) -> None:
    peer.ask(methods.ExchangeDeclare(exchange=which, type="topic"))
    peer.declare("wild")
    for each in WILDCARDS[which]:
        peer.say(methods.QueueBind(queue="wild", exchange=which, routing_key=each, nowait=True))
    seen(peer, "wild")

    keys = [".".join("ab"[number * 40_503 >> at & 1] for at in range(120)) for number in range(100)]
    peer.send(b"".join(publish(key, exchange=which) for key in keys))

    told = peer.ask(methods.ExchangeDelete(exchange=which))
    assert told is Bare.EXCHANGE_DELETE_OK or is_refused(told)


def is_refused(told: Said) -> bool:
    """Tell whether a message was refused, as its key would take too long."""
    return isinstance(told, methods.ChannelClose) and "too many bindings" in told.reply_text


def test_who_does_not_read_replies_is_cut_off(server: Process, address: str, peer: Peer) -> None:
    with Peer(address, receive_buffer=4096).connect(1) as asking, cut_off(server, asking):
        asking.ask(methods.BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True))
        peer.declare("asked")
        reply_to = encode_properties(Properties(reply_to="amq.rabbitmq.reply-to"))
        asking.send(publish("asked", b"?", reply_to))
        peer.ask(methods.BasicConsume(queue="asked", no_ack=True))
        assert isinstance(peer.next()[1], methods.BasicDeliver)
        header, _ = peer.next()[1], peer.next()
        assert isinstance(header, bytes)
        name = decode_properties(header[12:]).reply_to
        assert name is not None
        for _ in range(100):
            peer.send(publish(name, bytes(MIB)))
        seen(peer, "asked")


def test_a_client_that_stops_is_cut_off(server: Process, address: str) -> None:
    with Peer(address) as peer, cut_off(server, peer):
        peer.send(connecting(START_OK, TUNE_OK(0, 0, 1), methods.ConnectionOpen()))
        for _ in range(3):
            peer.next()

        with pytest.raises(EOFError):
            peer.next()
