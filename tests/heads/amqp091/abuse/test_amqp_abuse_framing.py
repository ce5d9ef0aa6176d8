"""AMQP peers that speak another protocol, break its framing, or do not log in as one should."""

import socket

import pytest
from tests.heads.amqp091.abuse.attacks import (
    CONTENT_TYPE,
    FRAME_MAX,
    HANDSHAKE_MS,
    HEADERS_FLAG,
    TIMESTAMP,
    TUNE_OK,
    a_message,
    closed,
    cut_off,
    deep,
)
from tests.heads.amqp091.raw_peers import (
    Peer,
    publish,
)
from tests.heads.amqp091.talking import HANDSHAKE, START_OK, connecting, content_header
from tests.heads.server_process import Process

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
from mainstem.heads.amqp091.fields import long_string
from mainstem.heads.amqp091.methods import Bare, encode_method

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


def is_cut_off_byte_by_byte(peer: Peer, data: bytes) -> bool:
    """Send one byte after the other; tell whether the server closes the connection meanwhile."""
    for byte in data:
        try:
            peer.send(bytes([byte]))
            if not peer.socket.recv(4096):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            # The byte arrived after the server had closed the connection.
            return True
    return False


def test_who_logs_in_byte_by_byte_is_cut_off_in_time(server: Process, address: str) -> None:
    with Peer(address) as peer, cut_off(server, peer):
        peer.socket.settimeout(HANDSHAKE_MS / 1000 / 20)

        assert is_cut_off_byte_by_byte(peer, HANDSHAKE)


def declare(arguments: bytes) -> bytes:
    """Return a QueueDeclare with arguments that need not be a table."""
    whole = encode_method(methods.QueueDeclare(queue="malformed"))
    return frame(METHOD, 1, whole[:-4] + arguments)


def with_property(flags: int, value: bytes) -> bytes:
    return a_message(0, properties=flags.to_bytes(2, "big") + value)


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
