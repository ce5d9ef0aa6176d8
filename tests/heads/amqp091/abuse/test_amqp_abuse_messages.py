"""AMQP names, messages, properties and arguments at their limits and beyond."""

import gzip

import pytest
from tests.heads.amqp091.abuse.attacks import (
    FRAME_MAX,
    HEADERS_FLAG,
    MAX_MESSAGE,
    a_message,
    deep,
    refused,
)
from tests.heads.amqp091.raw_peers import (
    Peer,
    publish,
    queue_declare,
)
from tests.heads.amqp091.talking import content_header

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.fields import Value, long_string, short_string
from mainstem.heads.amqp091.methods import Bare
from mainstem.heads.amqp091.properties import Properties, encode_properties

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
    "JSON that is 100,000 deep": b"[" * 100_000,
    "JSON that is none": b'{"a": NaN, "a": 1e999, "b": ' + b"9" * 5_000 + b"}",
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


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity", "no such thing"])
def test_a_body_is_never_unpacked(peer: Peer, encoding: str) -> None:
    bomb = gzip.compress(bytes(5 * MAX_MESSAGE))
    peer.declare("packed")
    peer.send(publish("packed", bomb, encode_properties(Properties(content_encoding=encoding))))

    assert peer.get("packed") == bomb
