"""A law: the fast path gives the same responses to produce requests as the slow one."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.heads.contexts import kafka_service

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import (
    Durability,
    Overload,
    Timestamps,
    TopicSettings,
    Validate,
)
from mainstem.heads.conversation import Answer, Later
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.client_codec import encode_request
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from mainstem.node.config import Config
from mainstem.node.node import open_node

BATCH = bytes(build([Event(b"value"), Event(b"other")], now_ms=1))
FROM_PRODUCER = [
    bytes(
        build(
            [Event(b"value")] * count,
            now_ms=1,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=first,
        )
    )
    for producer_id in (3, 4)
    for first, count in ((0, 1), (1, 2), (3, 1), (4, 1))
]
NO_SUCH_ID = b"there is no such"
CLOSED = b"the connection is closed"
DAMAGED = BATCH[:-1] + b"\xff"
LIMITED = TopicSettings(durability=Durability.MEMORY, max_backlog=5, overload=Overload.DROP_NEWEST)
STAMPED = TopicSettings(
    durability=Durability.MEMORY,
    timestamps=Timestamps.APPENDED,
    validate=Validate.DEEP,
)
HOLDING = TopicSettings(durability=Durability.MEMORY, max_backlog=5, overload=Overload.BACKPRESSURE)


class Sent(NamedTuple):
    """A request, and how often in a row it is sent."""

    version: int
    client: str | None
    topic: str
    acks: int
    partitions: tuple[tuple[int, bytes | None], ...]
    after: bytes
    times: int


records = st.sampled_from([BATCH, BATCH, BATCH, DAMAGED, None, *FROM_PRODUCER])
requests = st.builds(
    Sent,
    version=st.sampled_from([3, 4, 5, 8, 9, 10, 12, 13]),
    client=st.sampled_from(["me", None]),
    topic=st.sampled_from(["plain", "limited", "holding", "stamped", "unknown", "n" * 130]),
    acks=st.sampled_from([-1, -1, 1, 0, 2]),
    partitions=st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 7]), records),
        min_size=1,
        max_size=2,
    ).map(tuple),
    after=st.sampled_from([b"", b"", b"\0\0"]),
    times=st.integers(1, 4),
)


class Server:
    """A server in memory that is asked without a socket."""

    def __init__(self, *, remembers: bool) -> None:
        self._remembers = remembers
        self._node = open_node(None, Config(), now_ms=lambda: 5)
        broker = self._node.broker
        broker.create_topic("plain", TopicSettings(partitions=2, durability=Durability.MEMORY))
        broker.create_topic("limited", LIMITED)
        broker.create_topic("holding", HOLDING)
        broker.create_topic("stamped", STAMPED)
        broker.commit("slow", {("limited", 0): 0, ("holding", 0): 0})
        self._service = kafka_service(broker, lambda: 5, KafkaSettings(), self._node.defaults)
        self._conversation = KafkaConversation(self._service, "peer")

    def answer(self, sent: Sent, correlation_id: int) -> bytes:
        """Return the answer, if there is one; topic ids are not told apart."""
        broker = self._node.broker
        named = {each.name: bytes.fromhex(each.id) for each in broker.topics() if each.id}
        topic_id = named.get(sent.topic, NO_SUCH_ID)
        frame = frame_of(sent, topic_id, correlation_id)
        if not self._remembers:
            self._conversation = KafkaConversation(self._service, "peer")
        found = self._conversation.handle(memoryview(bytearray(frame)))
        return said(found).replace(topic_id, NO_SUCH_ID)

    def answers(self, frames: Sequence[bytes]) -> bytes:
        """Return all answers to requests that come in one read, until it is closed for one."""
        if not self._remembers:
            self._conversation = KafkaConversation(self._service, "peer")
        view = memoryview(bytearray(b"".join(frames)))
        found = b""
        while size := self._conversation.frame_size(view):
            run = self._conversation.handle_run(view)
            answer, size = run or (self._conversation.handle(view[:size]), size)
            if CLOSED not in found:
                found += said(answer)
            view = view[size:]
        return found

    def told(self) -> tuple[object, ...]:
        """Return what it counted."""
        counts = self._service.counts
        overload = [self._node.broker.counters(name) for name in ("limited", "holding")]
        return counts.requests, counts.errors, counts.produced_events, overload

    def stored(self) -> list[bytes]:
        """Return what the partitions hold."""
        broker = self._node.broker
        places = [("plain", 0), ("plain", 1), ("limited", 0), ("holding", 0), ("stamped", 0)]
        return [bytes(broker.read(*place, 0, 1 << 20).tobytes()) for place in places]

    def close(self) -> None:
        self._node.close()


def said(answer: Answer | Later) -> bytes:
    """Return what the peer gets: nothing yet, an answer, or the end of the connection."""
    if isinstance(answer, Later):
        return b"" if answer.failed is None else CLOSED
    return b"".join(piece for piece in answer if isinstance(piece, bytes))


def frame_of(sent: Sent, topic_id: bytes, correlation_id: int) -> bytes:
    places = tuple(
        ProducePartition(number, None if records is None else memoryview(records))
        for number, records in sent.partitions
    )
    topic = ProduceTopic(topic_id, sent.topic, places)
    body = ProduceRequest(None, sent.acks, 1000, (topic,))
    pieces = encode_request(PRODUCE, sent.version, correlation_id, sent.client, body)
    data = b"".join(bytes(piece) for piece in pieces if isinstance(piece, bytes | memoryview))
    data += sent.after
    return (len(data) - 4).to_bytes(4, "big") + data[4:]


async def answers(sent: Sequence[Sent]) -> None:
    one, other = Server(remembers=True), Server(remembers=False)
    try:
        number = 0
        for each in sent:
            for _ in range(each.times):
                number += 1

                assert one.answer(each, number) == other.answer(each, number)
        assert one.told() == other.told()
    finally:
        one.close()
        other.close()


async def answers_at_once(sent: Sequence[Sent]) -> None:
    one, other = Server(remembers=True), Server(remembers=False)
    try:
        frames = [
            frame_of(each, NO_SUCH_ID, number)
            for number, each in enumerate(each for each in sent for _ in range(each.times))
        ]

        at_once = one.answers(frames)

        one_by_one = b"".join(other.answers([frame]) for frame in frames)
        before, closed, _ = one_by_one.partition(CLOSED)
        assert at_once == before + closed
        assert one.told() == other.told()
        assert one.stored() == other.stored()
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("compared", [answers, answers_at_once])
@given(sent=st.lists(requests, min_size=1, max_size=6))
@settings(max_examples=60)
def test_a_request_is_answered_alike_whether_or_not_it_follows_one_like_it_in_the_same_read(
    compared: Callable[[Sequence[Sent]], Coroutine[None, None, None]], sent: list[Sent]
) -> None:
    asyncio.run(compared(sent))


@pytest.mark.parametrize("topic", ["plain", "limited", "holding", "stamped"])
@given(st.lists(st.tuples(st.sampled_from([0, 0, 1, 7]), records), min_size=3, max_size=12))
@settings(max_examples=60)
def test_so_are_those_of_a_busy_producer(
    topic: str, batches: list[tuple[int, bytes | None]]
) -> None:
    sent = [Sent(10, "me", topic, -1, (each,), b"", 1) for each in [(0, BATCH)] * 2 + batches]

    asyncio.run(answers_at_once(sent))


@pytest.mark.parametrize("version", [10, 13])
def test_requests_in_a_row_are_given_offsets_in_a_row(version: int) -> None:
    sent = Sent(version, "me", "plain", -1, ((0, BATCH),), b"", 5)

    asyncio.run(answers([sent]))


@pytest.mark.parametrize("compared", [answers, answers_at_once])
def test_a_producer_of_a_full_topic_is_throttled_however_often_it_asks(
    compared: Callable[[Sequence[Sent]], Coroutine[None, None, None]],
) -> None:
    asyncio.run(compared([Sent(10, "me", "limited", -1, ((0, BATCH),), b"", 5)]))
