"""Sample frames of each head, for ``test_every_head.py``: one entry per head.

A new head adds one entry to ``SPOKEN``, by its name. A field of a law that does not apply is left
out, and ``not_applicable`` says why; a test compares both.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from tests.heads.amqp091.raw_peers import frames_in
from tests.heads.amqp091.talking import HANDSHAKE, publish_frames
from tests.heads.amqp091.values import drawn
from tests.heads.kafka.raw_peers import fetching, production, request
from tests.heads.nng import sp
from tests.heads.started import TOPIC
from tests.heads.stomp.frames import frames_in as stomp_frames_in
from tests.heads.zmq import zmtp
from tests.kafka_protocol.frames import request_frame, response_frame
from tests.kafka_protocol.values import EVERY_API, values

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads import HEADS
from mainstem.heads.admin.query import fields_of
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import FRAME_OVERHEAD, HEAD, METHOD, PROTOCOL_HEADER, method_frame
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import METHODS, Bare, Method
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.amqp_management.app import fields_of as management_fields_of
from mainstem.heads.amqp_management.settings import AmqpManagementSettings
from mainstem.heads.brokerless.codec import (
    Published,
    Refusal,
    decode_answer,
    decode_event,
    decode_whole,
    encode_event,
    encode_whole,
    joined,
    parted,
)
from mainstem.heads.connect.configs import config_of as connect_config_of
from mainstem.heads.connect.configs import settings_of as connect_settings_of
from mainstem.heads.connect.settings import ConnectSettings
from mainstem.heads.head import Head, HeadSettings, RunningHead
from mainstem.heads.http.formats.event_json import event_json, read_event
from mainstem.heads.http.settings import HttpSettings
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.heads.moldudp64.codec import (
    Packet,
    Request,
    decode_packet,
    encode_packet,
    encode_request,
)
from mainstem.heads.moldudp64.metrics import REQUESTS
from mainstem.heads.moldudp64.settings import MoldSettings
from mainstem.heads.nng.settings import NngSettings
from mainstem.heads.statsd.codec import Metric, parse_packet
from mainstem.heads.statsd.metrics import LOST, SAMPLES
from mainstem.heads.statsd.settings import StatsdSettings
from mainstem.heads.stomp.codec import Frame, FrameScanner, Version, encode
from mainstem.heads.stomp.settings import StompSettings
from mainstem.heads.web.limits import WebLimits
from mainstem.heads.webhooks.endpoints import Payload, SigningSecret
from mainstem.heads.webhooks.payloads import message as webhook_message
from mainstem.heads.webhooks.settings import WebhooksSettings
from mainstem.heads.webhooks.sources import Scheme, Source
from mainstem.heads.zmq.settings import Security, ZmqSettings
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.connection import API_VERSIONS, ApiVersionsRequest
from mainstem.kafka_protocol.messages.fetch import FETCH
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProduceResponse
from mainstem.kafka_protocol.messages.share_fetch import (
    SHARE_FETCH,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
)
from mainstem.kafka_protocol.server_codec import decode_request

HOUR_MS = 3_600_000


class Law(StrEnum):
    """The laws that may not apply to a head."""

    CUTTING = "cutting the stream anywhere changes nothing"
    SETTLING = "closing gives unsettled deliveries back"
    FRAME_LIMIT = "a frame over the limit is refused before it is allocated"
    LOGIN = "who fails to log in gets the protocol's own refusal"
    WAITING = "who waits is answered when the server drains"
    READING = "draining does not wait for who does not read"


@dataclass(frozen=True)
class Spoken:
    """What a peer of one head may say, and what it is told.

    Every head starts with the topic ``TOPIC``, and with a queue of the same name on it.
    """

    settings: HeadSettings
    ask: bytes
    """A whole conversation with one request that needs a right: to publish, if the head can."""
    told: Callable[[bytes, RunningHead], object]
    """What the peer was told in answer to ``ask``; None if nothing."""
    done: object
    """What that is if it was done,"""
    denied: object
    """if the peer may not,"""
    unauthenticated: object
    """and if it would have to log in."""
    publishes: bool
    """Whether ``ask`` publishes to the topic."""
    messages: st.SearchStrategy[Any]
    """Messages of the protocol,"""
    there_and_back: Callable[[Any], object]
    """and what is left of one that was encoded and decoded."""

    prepare: Callable[[Broker], None] | None = None
    """What must be defined before a peer speaks."""
    stream: bytes | None = None
    """Several requests of one conversation: Law.CUTTING."""
    answers: Callable[[bytes], object] = bytes
    """What of the answers to them is the same every time."""
    take: Callable[[Broker], bytes] | None = None
    """A conversation that is handed an event of the queue and does not settle it: Law.SETTLING."""
    limit: int = 0
    """The largest frame that the settings allow,"""
    claims: Callable[[int], bytes] | None = None
    """and how a frame of so many bytes begins: Law.FRAME_LIMIT."""
    login: bytes | None = None
    """``ask`` with a wrong password: Law.LOGIN."""
    wait: bytes | None = None
    """A conversation that waits for an hour: Law.WAITING;"""
    wait_begins: bytes = b""
    """what the peer hears before it waits."""
    unread: bytes | None = None
    """A conversation that is answered with 60 KiB or more: Law.READING."""
    not_applicable: Mapping[Law, str] = field(default_factory=dict)
    """Why a law does not apply."""

    def gaps(self) -> set[Law]:
        """Return the laws of which the entry says nothing."""
        given = {
            Law.CUTTING: self.stream,
            Law.SETTLING: self.take,
            Law.FRAME_LIMIT: self.claims,
            Law.LOGIN: self.login,
            Law.WAITING: self.wait,
            Law.READING: self.unread,
        }
        return {law for law in Law if given[law] is None}


# Kafka


_BATCH = bytes(build([Event(b"value", b"key")], now_ms=1))
_PRODUCE = request(PRODUCE, 9, production(TOPIC, _BATCH))


def _kafka_told(heard: bytes, _: RunningHead) -> object:
    if not heard:
        return None
    body = decode_response(PRODUCE, 9, memoryview(heard)[4:]).body
    assert isinstance(body, ProduceResponse)
    return Code(body.responses[0].partition_responses[0].error_code)


def _kafka_messages(case: tuple[Api, int]) -> st.SearchStrategy[object]:
    api, version = case
    return st.tuples(st.just(case), values(api.request, version), values(api.response, version))


def _kafka_there_and_back(message: tuple[tuple[Api, int], Wire, Wire]) -> object:
    (api, version), asked, answered = message
    request_body = decode_request(memoryview(request_frame(api, version, asked))).body
    frame = memoryview(response_frame(api, version, answered))
    return (api, version), request_body, decode_response(api, version, frame).body


def _kafka_take(broker: Broker) -> bytes:
    topic_id = bytes.fromhex(broker.topic(TOPIC).id)
    beat = ShareGroupHeartbeatRequest(TOPIC, "member", 0, None, (TOPIC,))
    fetch = ShareFetchRequest(
        group_id=TOPIC,
        member_id="member",
        max_wait_ms=HOUR_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=100,
        topics=[ShareFetchTopic(topic_id, [ShareFetchPartition(0)])],
    )
    return request(SHARE_GROUP_HEARTBEAT, 1, beat) + request(SHARE_FETCH, 2, fetch)


_KAFKA = Spoken(
    settings=KafkaSettings(),
    stream=request(API_VERSIONS, 0, ApiVersionsRequest())
    + _PRODUCE
    + _PRODUCE
    + request(FETCH, 12, fetching(TOPIC)),
    ask=_PRODUCE,
    told=_kafka_told,
    done=Code.NONE,
    denied=Code.TOPIC_AUTHORIZATION_FAILED,
    unauthenticated=Code.SASL_AUTHENTICATION_FAILED,
    publishes=True,
    messages=st.sampled_from(EVERY_API).flatmap(_kafka_messages),
    there_and_back=_kafka_there_and_back,
    take=_kafka_take,
    limit=KafkaSettings().max_frame_bytes,
    claims=lambda size: size.to_bytes(4, "big"),
    wait=request(FETCH, 12, fetching(TOPIC, max_wait_ms=HOUR_MS)),
    unread=request(API_VERSIONS, 0, ApiVersionsRequest()) * 300,
    not_applicable={Law.LOGIN: "SASL is not served yet, so nobody can log in"},
)


# STOMP


def _frame(command: str, body: bytes = b"", **headers: str) -> bytes:
    """Write a frame; headers with _ for -."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return encode(command, named, body, Version.V1_2)


_CONNECT = _frame("CONNECT", accept_version="1.2", host="/")
_QUEUE = f"/queue/{TOPIC}"
_SEND = _frame("SEND", b"value", destination=_QUEUE, receipt="1")
_SUBSCRIBE = _frame("SUBSCRIBE", destination=_QUEUE, id="1", ack="client")


def _stomp_frames(heard: bytes) -> list[Frame]:
    found = stomp_frames_in(FrameScanner(StompSettings()), [heard])
    assert found.rest == b""
    return found.frames


def _stomp_answers(heard: bytes) -> object:
    """Leave out the session's id."""
    found = _stomp_frames(heard)
    return [(it.command, it.headers | {"session": ""}, it.body) for it in found]


def _stomp_told(heard: bytes, _: RunningHead) -> object:
    answers = [it for it in _stomp_frames(heard) if it.command != "CONNECTED"]
    return answers[0].headers.get("message", answers[0].command) if answers else None


def _stomp_claims(size: int) -> bytes:
    head = b"SEND\ndestination:/queue/orders\ncontent-length:%d\n\n"
    # The frame's size counts its head and the NUL at its end.
    return head % (size - len(head % size) - 1)


def _stomp_there_and_back(message: Frame) -> Frame:
    (found,) = _stomp_frames(
        encode(message.command, message.headers.items(), message.body, Version.V1_2)
    )
    found.headers.pop("content-length", None)
    return found


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)

_STOMP = Spoken(
    settings=StompSettings(),
    stream=_CONNECT
    + _SEND
    + _frame("SEND", b"two\0\n\n", destination=_QUEUE, receipt="a:2")
    + b"\n\n"
    + _frame("DISCONNECT", receipt="3"),
    answers=_stomp_answers,
    ask=_CONNECT + _SEND,
    told=_stomp_told,
    done="RECEIPT",
    denied="access_refused",
    unauthenticated="Bad CONNECT",
    publishes=True,
    messages=st.builds(
        Frame,
        st.sampled_from(["SEND", "MESSAGE", "ERROR"]),
        st.dictionaries(_TEXT.filter(lambda it: it != "content-length"), _TEXT, max_size=8),
        st.binary(max_size=200),
    ),
    there_and_back=_stomp_there_and_back,
    take=lambda _: _CONNECT + _SUBSCRIBE,
    limit=StompSettings().max_frame_bytes,
    claims=_stomp_claims,
    login=_frame("CONNECT", accept_version="1.2", host="/", login="ann", passcode="no") + _SEND,
    wait=_CONNECT + _frame("SUBSCRIBE", destination=_QUEUE, id="1", receipt="waits"),
    wait_begins=b"receipt-id:waits",
    unread=_CONNECT + _SEND * 3000,
)


# AMQP 0-9-1


def _on_channel(*asked: Method | Bare) -> bytes:
    return b"".join(method_frame(1, each) for each in (methods.ChannelOpen(), *asked))


def _publish(routing_key: str, body: bytes, *, mandatory: bool = False) -> bytes:
    frames = publish_frames(1, routing_key, body)
    frames[0] = method_frame(1, methods.BasicPublish(routing_key=routing_key, mandatory=mandatory))
    return b"".join(frames)


def _declare(queue: str) -> Method:
    """Declare a queue on the topic that is there."""
    return methods.QueueDeclare(queue=queue, durable=True, arguments={"x-mainstem-topic": TOPIC})


_AMQP_ASK = _on_channel(_declare("asked"), methods.ConfirmSelect()) + _publish("asked", b"value")
_CONSUME = _on_channel(
    methods.QueueDeclare(queue=TOPIC, durable=True),
    methods.BasicConsume(queue=TOPIC, consumer_tag="waits"),
)


def _amqp_answers(heard: bytes) -> object:
    """Tell confirms apart: how many come in a frame, and between which answers, is free."""
    answers = frames_in(heard)
    confirmed: set[int] = set()
    for _, answer in answers:
        if isinstance(answer, methods.BasicAck):
            last = answer.delivery_tag
            assert last not in confirmed
            confirmed |= set(range(1 if answer.multiple else last, last + 1))
    return [each for each in answers if not isinstance(each[1], methods.BasicAck)], confirmed


def _amqp_told(heard: bytes, _: RunningHead) -> object:
    for _channel, answer in frames_in(heard):
        if isinstance(answer, methods.ChannelClose | methods.ConnectionClose):
            return ReplyCode(answer.reply_code)
        if isinstance(answer, methods.BasicAck):
            return answer
    return None


def _amqp_there_and_back(message: tuple[int, Method | Bare]) -> object:
    (found,) = frames_in(method_frame(*message))
    return found


_AMQP = Spoken(
    settings=AmqpSettings(),
    # Short, as it is cut at every place.
    stream=PROTOCOL_HEADER
    + method_frame(0, methods.ConnectionStartOk(response=b"\0u\0p"))
    + method_frame(0, methods.ConnectionTuneOk())
    + method_frame(0, methods.ConnectionOpen())
    + _on_channel(_declare("q"), methods.ConfirmSelect())
    + _publish("q", b"one")
    + _publish("", b"", mandatory=True)
    + b"".join(publish_frames(1, "q", b"parts", part_bytes=3))
    + method_frame(1, methods.BasicGet(queue="q"))
    + method_frame(1, methods.BasicNack(1, False, True)),
    answers=_amqp_answers,
    ask=HANDSHAKE + _AMQP_ASK,
    told=_amqp_told,
    done=methods.BasicAck(1),
    denied=ReplyCode.ACCESS_REFUSED,
    unauthenticated=ReplyCode.ACCESS_REFUSED,
    publishes=True,
    messages=st.tuples(
        st.integers(0, 2**16 - 1),
        st.sampled_from(list(METHODS.values())).flatmap(drawn) | st.sampled_from(Bare),
    ),
    there_and_back=_amqp_there_and_back,
    take=lambda _: HANDSHAKE + _CONSUME,
    # As RabbitMQ does, the head lets clients off the bytes around the payload.
    limit=AmqpSettings().frame_max + FRAME_OVERHEAD,
    claims=lambda size: HANDSHAKE + HEAD.pack(METHOD, 0, size - FRAME_OVERHEAD),
    login=HANDSHAKE.replace(b"secret", b"wrong!") + _AMQP_ASK,
    wait=HANDSHAKE + _CONSUME,
    wait_begins=method_frame(1, methods.BasicConsumeOk("waits")),
    unread=HANDSHAKE + _on_channel() + _publish("nowhere", bytes(1000), mandatory=True) * 300,
)


# StatsD


def _statsd_told(_: bytes, running: RunningHead) -> object:
    counts = {metric: count for metric, (_, count) in running.samples() if count}
    if LOST in counts:
        return "lost"
    return "taken" if SAMPLES in counts else None


def _statsd_there_and_back(message: Metric) -> Metric:
    tags = f"|#{','.join(message.tags)}" if message.tags else ""
    (found,), wrong = parse_packet(f"{message.name}:{message.value}|ms{tags}".encode())
    assert not wrong
    return found


_WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)

_STATSD = Spoken(
    settings=StatsdSettings(samples_topic=TOPIC),
    ask=b"jobs:1|c",
    told=_statsd_told,
    done="taken",
    # Nobody can be told anything by StatsD: what is refused is counted, and the log says why.
    denied="lost",
    unauthenticated="lost",
    publishes=True,
    messages=st.builds(
        Metric,
        _WORD,
        st.just("timer"),
        st.floats(allow_nan=False, allow_infinity=False),
        tags=st.sets(_WORD).map(lambda tags: tuple(sorted(tags))),
    ),
    there_and_back=_statsd_there_and_back,
    not_applicable={
        Law.CUTTING: "there is no stream: every UDP packet is whole, and stands for itself",
        Law.SETTLING: "StatsD hands out no deliveries",
        Law.FRAME_LIMIT: "a UDP packet has 64 KiB at most, and the kernel holds it",
        Law.LOGIN: "StatsD has no login",
        Law.WAITING: "StatsD answers nothing, so nobody waits",
        Law.READING: "StatsD answers nothing",
    },
)


# MoldUDP64


def _mold_told(_: bytes, running: RunningHead) -> object:
    outcomes = {labels[0] for metric, (labels, _) in running.samples() if metric is REQUESTS}
    # Others may have said something else before.
    return next(iter(outcomes - {"malformed", "unknown_session"}), None)


_SESSION_NAME = st.text("ABCxyz0189", min_size=1, max_size=10)

_MOLDUDP64 = Spoken(
    settings=MoldSettings(feeds=f"S1={TOPIC}/0@239.255.77.9:30999", requests_per_s=1_000_000),
    ask=encode_request(Request("S1", 1, 1)),
    told=_mold_told,
    # The topic is empty.
    done="not_yet",
    # MoldUDP64 has no refusals: a request that is not answered is counted by its reason.
    denied="denied",
    unauthenticated="unauthenticated",
    publishes=False,
    messages=st.builds(
        Packet,
        _SESSION_NAME,
        st.integers(1, 2**60),
        st.lists(st.binary(max_size=50), max_size=20).map(tuple),
    ),
    there_and_back=lambda packet: decode_packet(encode_packet(packet)),
    not_applicable={
        Law.CUTTING: "there is no stream: every UDP packet is whole, and stands for itself",
        Law.SETTLING: "MoldUDP64 hands out no deliveries",
        Law.FRAME_LIMIT: "a UDP packet has 64 KiB at most, and the kernel holds it",
        Law.LOGIN: "MoldUDP64 has no login",
        Law.WAITING: "a request is answered at once or never",
        Law.READING: "answers beyond the socket's buffer are dropped, as UDP may drop any packet",
    },
)


# ZeroMQ


def _zmq_told(heard: bytes, _: RunningHead) -> object:
    if zmtp.error_of(heard) is not None:
        return "unauthenticated"
    answers = zmtp.messages_of(heard)
    if not answers:
        return None
    found = decode_answer(answers[0])
    return found.failure if isinstance(found, Refusal) else type(found).__name__


_ZMQ_REPLAY = zmtp.message(b"REPLAY", TOPIC.encode(), b"0", b"0")
_ZMQ_LIMIT = 4096
_ZMQ = Spoken(
    settings=ZmqSettings(security=Security.PLAIN, publish="127.0.0.1:0"),
    ask=zmtp.logged_in() + _ZMQ_REPLAY,
    told=_zmq_told,
    done="Events",
    denied="denied",
    unauthenticated="unauthenticated",
    publishes=False,
    messages=st.builds(
        Published,
        st.builds(
            Event,
            st.none() | st.binary(max_size=50),
            st.none() | st.binary(max_size=20),
            st.dictionaries(_TEXT, st.none() | st.binary(max_size=20), max_size=4).map(
                lambda named: tuple(named.items())
            ),
            st.integers(-1, 2**62),
            topic=_WORD,
            partition=st.integers(0, 100),
            offset=st.integers(0, 2**62),
        ),
        st.integers(0, 2**62),
    ),
    there_and_back=lambda published: decode_event(encode_event(published.event, published.after)),
    limit=_ZMQ_LIMIT,
    claims=lambda size: zmtp.logged_in() + b"\x02" + size.to_bytes(8, "big"),
    login=zmtp.logged_in(password=b"wrong") + _ZMQ_REPLAY,
    not_applicable={
        Law.CUTTING: "libzmq cuts the stream itself, and passes on whole messages",
        Law.SETTLING: "what PUSH takes is acknowledged at once, so nothing can be given back",
        Law.WAITING: "a request is answered at once",
        Law.READING: "a peer must read to log in; heads/zmq has a test of its own",
    },
)


# nng


def _nng_told(heard: bytes, _: RunningHead) -> object:
    answers = sp.bodies_of(heard)
    if not answers:
        return None
    found = decode_answer(parted(answers[0]))
    return found.failure if isinstance(found, Refusal) else type(found).__name__


_NNG_REPLAY = sp.request(joined([b"REPLAY", TOPIC.encode(), b"0", b"0"]))
_NNG = Spoken(
    settings=NngSettings(publish="127.0.0.1:0"),
    ask=sp.HEADER + _NNG_REPLAY,
    told=_nng_told,
    done="Events",
    denied="denied",
    unauthenticated="unauthenticated",
    publishes=False,
    messages=_ZMQ.messages,
    there_and_back=lambda published: decode_whole(encode_whole(published.event, published.after)),
    limit=4096,
    claims=lambda size: sp.HEADER + size.to_bytes(8, "big"),
    unread=sp.HEADER + _NNG_REPLAY * 2_000,
    not_applicable={
        Law.CUTTING: "nng cuts the stream itself, and passes on whole messages",
        Law.SETTLING: "what PUSH takes is acknowledged at once, so nothing can be given back",
        Law.LOGIN: "nng has no login",
        Law.WAITING: "a request is answered at once",
    },
)


# Admin


def _get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


def _http_status(heard: bytes, _: RunningHead) -> object:
    return int(heard.split(b" ", 2)[1]) if heard else None


def _http_answers(heard: bytes) -> bytes:
    """Leave out when they were made."""
    return re.sub(rb"(?i)\r\ndate: [^\r]*", b"", heard)


def _http_there_and_back(message: dict[str, str]) -> dict[str, str]:
    return fields_of(QueryParams(urlencode(message)).multi_items())


def _http_claims(size: int) -> bytes:
    start = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
    return start + b"x" * (size - len(start))


_ADMIN = Spoken(
    settings=next(it.settings for it in HEADS if it.name == "admin"),
    stream=_get("/livez", "Accept: */*"),
    answers=_http_answers,
    ask=_get("/connections"),
    told=_http_status,
    done=200,
    denied=403,
    unauthenticated=401,
    publishes=False,
    messages=st.dictionaries(_TEXT, _TEXT.filter(lambda it: "\ufffd" not in it), max_size=10),
    there_and_back=_http_there_and_back,
    limit=WebLimits().max_head_bytes,
    claims=_http_claims,
    login=_get("/connections", "Authorization: Basic YW5uOm5v"),
    not_applicable={
        Law.SETTLING: "the admin port shows what queues hold, and hands out no deliveries",
        Law.WAITING: "no page waits for anything but being made",
        Law.READING: "no page that a peer can make long; heads/web has a test of its own",
    },
)


# RabbitMQ's management API


_MANAGEMENT = Spoken(
    settings=AmqpManagementSettings(),
    stream=_get("/api/nodes?columns=name", "Accept: */*"),
    answers=_http_answers,
    ask=_get("/api/nodes"),
    told=_http_status,
    done=200,
    # RabbitMQ's status for a missing permission.
    denied=401,
    unauthenticated=401,
    publishes=False,
    messages=st.dictionaries(_TEXT, _TEXT, max_size=10),
    there_and_back=lambda message: management_fields_of(urlencode(message).encode()),
    limit=WebLimits().max_head_bytes,
    claims=_http_claims,
    login=_get("/api/nodes", "Authorization: Basic YW5uOm5v"),
    not_applicable={
        Law.SETTLING: "messages that a request gets are settled by that request",
        Law.WAITING: "a request waits for the disk only",
        Law.READING: "no answer of this server alone is long; heads/web has a test of its own",
    },
)


# HTTP


def _http_request(first: str, *headers: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{first} HTTP/1.1", "Host: localhost", *length, *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def _http_there_and_back_of_event(message: Event) -> Event:
    found, partition = read_event(event_json(message))
    assert partition == message.partition
    offset = msgspec.json.decode(event_json(message))["offset"]
    # Only the client's own programs know their topic.
    return msgspec.structs.replace(found, partition=partition, offset=offset)


_EVENTS = f"/topics/{TOPIC}/events"
_PUBLISH_JSON = _http_request(f"POST {_EVENTS}", "Content-Type: application/json", body=b'{"id":1}')
_HTTP = Spoken(
    settings=HttpSettings(),
    stream=_PUBLISH_JSON
    + _http_request(f"POST {_EVENTS}", "Content-Type: application/x-ndjson", body=b"1\n2\n")
    + _http_request(f"GET {_EVENTS}?from=1"),
    answers=_http_answers,
    ask=_PUBLISH_JSON,
    told=_http_status,
    done=200,
    denied=403,
    unauthenticated=401,
    publishes=True,
    messages=st.builds(
        Event,
        st.none() | st.binary(max_size=50) | _TEXT.map(str.encode) | st.just(b'{"a":[1,null]}'),
        st.none() | st.binary(max_size=20),
        st.dictionaries(_TEXT, st.none() | st.binary(max_size=20), max_size=4).map(
            lambda named: tuple(named.items())
        ),
        st.integers(0, 2**62),
        partition=st.integers(0, 100),
        offset=st.integers(0, 2**62),
    ),
    there_and_back=_http_there_and_back_of_event,
    limit=WebLimits().max_head_bytes,
    claims=_http_claims,
    login=_PUBLISH_JSON.replace(b"\r\n\r\n", b"\r\nAuthorization: Basic YW5uOm5v\r\n\r\n", 1),
    wait=_http_request(f"GET {_EVENTS}?wait_s=300"),
    unread=_http_request(f"GET {_EVENTS}") * 400,
    not_applicable={
        Law.SETTLING: "leases belong to no connection, and a client of a WebSocket must wait for "
        "the upgrade before it says more; heads/http has a test of its own",
    },
)


# Webhooks


def _hook(token: str, message_id: str = "") -> bytes:
    """Send a webhook; those with one id are one message."""
    lines = [
        "POST /hooks/shop HTTP/1.1",
        "Host: localhost",
        f"X-Token: {token}",
        *([f"X-Id: {message_id}"] if message_id else []),
        "Content-Length: 2",
        "",
        "{}",
    ]
    return "\r\n".join(lines).encode()


_TOKEN = "correct-horse-battery"
_HOOK = _hook(_TOKEN)


def _define_source(broker: Broker) -> None:
    source = Source(
        name="shop",
        topic=TOPIC,
        scheme=Scheme.TOKEN,
        secrets=(SigningSecret("file:token"),),
        header="x-token",
        id_header="x-id",
    )
    broker.definitions.open("webhooks").set("source", "shop", msgspec.json.encode(source))


def _envelope_there_and_back(message: Event) -> Event:
    sent = webhook_message(Payload.ENVELOPE, "t", [message], batch=False)
    found = msgspec.json.decode(sent.body)
    key = found.get("key")
    return Event(
        base64.b64decode(found["base64"]) if "base64" in found else found["text"].encode(),
        None if key is None else key.encode(),
        tuple((name, value.encode()) for name, value in found["headers"].items()),
        topic=found["topic"],
        partition=found["partition"],
        offset=found["offset"],
    )


_WEBHOOKS = Spoken(
    settings=WebhooksSettings(secrets=str(Path(__file__).parents[1] / "heads/webhooks/secrets")),
    prepare=_define_source,
    # Short, as it is cut at every place.
    stream=_hook(_TOKEN, "1") + _hook(_TOKEN, "1"),
    answers=_http_answers,
    ask=_HOOK,
    told=_http_status,
    done=204,
    denied=403,
    unauthenticated=401,
    publishes=True,
    messages=st.builds(
        Event,
        _WORD.map(lambda word: f"/{word}".encode()) | st.binary(max_size=50).map(b"\xff".__add__),
        st.none() | _WORD.map(str.encode),
        st.dictionaries(_WORD, _WORD.map(str.encode), min_size=1).map(
            lambda headers: tuple(headers.items())
        ),
        topic=_WORD,
        partition=st.integers(0, 10),
        offset=st.integers(0, 2**53),
    ),
    there_and_back=_envelope_there_and_back,
    limit=WebLimits().max_head_bytes,
    claims=_http_claims,
    login=_hook("wrong"),
    unread=_HOOK * 1_000,
    not_applicable={
        Law.SETTLING: "what endpoints are sent is settled by their answers, not by connections",
        Law.WAITING: "no request waits for anything but the disk",
    },
)


# Kafka Connect


def _captured_by(tables: str) -> str:
    """Return the table that a configuration with this list captures, as it is shown again."""
    settings, _ = connect_settings_of("shop", {"table.include.list": tables})
    return connect_config_of(settings)["table.include.list"]


_CONNECT_REST = Spoken(
    settings=ConnectSettings(),
    stream=_get("/connector-plugins", "Accept: */*"),
    answers=_http_answers,
    ask=_get("/connector-plugins"),
    told=_http_status,
    done=200,
    denied=403,
    unauthenticated=401,
    publishes=False,
    messages=st.from_regex(r"[a-z]{1,9}\\\.[a-z]{1,9}", fullmatch=True),
    there_and_back=lambda message: _captured_by(message).replace(".", "\\."),
    limit=WebLimits().max_head_bytes,
    claims=_http_claims,
    login=_get("/connector-plugins", "Authorization: Basic YW5uOm5v"),
    not_applicable={
        Law.SETTLING: "connectors are defined, and nothing is delivered",
        Law.WAITING: "a request waits for the disk and for databases only",
        Law.READING: "no answer of this server alone is long; heads/web has a test of its own",
    },
)


SPOKEN: dict[str, Spoken] = {
    "kafka": _KAFKA,
    "stomp": _STOMP,
    "amqp": _AMQP,
    "statsd": _STATSD,
    "amqp_management": _MANAGEMENT,
    "http": _HTTP,
    "webhooks": _WEBHOOKS,
    "connect": _CONNECT_REST,
    "moldudp64": _MOLDUDP64,
    "zmq": _ZMQ,
    "nng": _NNG,
    "admin": _ADMIN,
}


def spoken(head: Head) -> Spoken:
    """Return the entry of a head."""
    found = SPOKEN.get(head.name)
    if found is None:
        raise AssertionError(
            f"the laws for every head cannot be checked for {head.name!r}: add an entry for it to "
            f"SPOKEN in tests/laws/heads.py. It says how a peer asks for something (ask, told, "
            f"done, denied, unauthenticated), what the codec writes and reads (messages, "
            f"there_and_back), and for each law that cannot apply why (not_applicable)"
        )
    return found
