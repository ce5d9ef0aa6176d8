"""Batches held by backpressure, until there is room, the peer disconnects or the server stops."""

import asyncio

import msgspec
import pytest
from tests.broker.brokers import new_broker, publish, read_all, values
from tests.heads.contexts import context_on
from tests.heads.kafka.raw_peers import request

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)

HOUR_MS = 3_600_000
FULL = TopicSettings(
    partitions=2, max_backlog=1, overload=Overload.BACKPRESSURE, hold_ms=2 * HOUR_MS
)


class Desk:
    """A head without sockets, and a topic whose two partitions are full."""

    def __init__(self, settings: TopicSettings = FULL) -> None:
        self.broker = new_broker()
        self.broker.create_topic("t", settings)
        self.broker.commit("readers", {("t", number): 0 for number in (0, 1)})
        for number in (0, 1):
            publish(self.broker, "t", b"first", partition=number)
        self.context = context_on(self.broker, lambda: 0, FULL)
        self.service = Service(self.context, KafkaSettings())
        self.conversation = KafkaConversation(self.service, "127.0.0.1:1")

    def produce(self, *partitions: int, acks: int = -1) -> Later:
        """Send a batch to each of some partitions, in a frame of which nothing may be kept."""
        frame = frame_for(*partitions, acks=acks)
        answer = self.conversation.handle(memoryview(frame))
        # This fails while anybody has a view of it.
        frame.clear()
        assert isinstance(answer, Later)
        assert answer.answer is None
        return answer

    async def make_room(self) -> None:
        """Let everything be read, and whoever waits for that try again."""
        self.broker.commit("readers", {("t", number): 1 for number in (0, 1)})
        for _ in range(3):
            await asyncio.sleep(0)

    def stored(self) -> list[list[bytes | None]]:
        """Return what is in the partitions."""
        return [values(read_all(self.broker, "t", number)) for number in (0, 1)]


def frame_for(*partitions: int, acks: int = -1) -> bytearray:
    """Return a request with a batch for each of some partitions."""
    batch = memoryview(bytes(build([Event(b"second")], now_ms=1)))
    places = tuple(ProducePartition(number, batch) for number in partitions)
    topics = (ProduceTopic(name="t", partition_data=places),)
    body = ProduceRequest(acks=acks, timeout_ms=2 * HOUR_MS, topic_data=topics)
    return bytearray(request(PRODUCE, 9, body))


def codes(later: Later) -> list[Code]:
    """Return what each partition of a request was answered."""
    assert later.answer is not None
    data = b"".join(piece for piece in later.take() if isinstance(piece, bytes))
    answer = decode_response(PRODUCE, 9, memoryview(data)[4:]).body
    assert isinstance(answer, ProduceResponse)
    return [Code(each.error_code) for each in answer.responses[0].partition_responses]


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    ("stops", "code", "refused"),
    [(False, Code.REQUEST_TIMED_OUT, 2), (True, Code.NOT_LEADER_OR_FOLLOWER, 0)],
    ids=["the peer goes", "the server stops"],
)
async def test_what_is_held_is_given_up_and_answered_once(
    desk: Desk, stops: bool, code: Code, refused: int
) -> None:
    answer = desk.produce(0, 1)

    if stops:
        desk.context.drain()
    desk.conversation.close()

    assert codes(answer) == [code] * 2
    assert desk.broker.counters("t")["refused"] == refused
    await desk.make_room()
    assert desk.stored() == [[b"first"]] * 2


async def test_what_is_held_for_a_peer_that_has_gone_and_wants_no_answer_is_given_up(
    desk: Desk,
) -> None:
    answer = desk.produce(0, acks=0)

    desk.conversation.close()

    assert (answer.answer, answer.failed) == ((), None)
    await desk.make_room()
    assert desk.stored() == [[b"first"]] * 2


@pytest.mark.parametrize("goes", [False, True])
async def test_what_had_room_is_not_given_up(desk: Desk, goes: bool) -> None:
    answer = desk.produce(1)

    await desk.make_room()
    if goes:
        desk.conversation.close()

    assert codes(answer) == [Code.NONE]
    assert desk.stored() == [[b"first"], [b"first", b"second"]]


async def test_of_the_requests_of_one_read_those_before_the_first_held_one_are_answered() -> None:
    # Room for three events, of which two let the fast path learn what the requests look like.
    desk = Desk(msgspec.structs.replace(FULL, max_backlog=4))
    for _ in range(2):
        desk.conversation.handle(memoryview(frame_for(0)))

    one = frame_for(0)
    view = memoryview(one + one + frame_for(1))
    run = desk.conversation.handle_run(view)

    assert run is not None
    assert run[1] == len(one)
    assert not isinstance(run[0], Later)
    rest = view[run[1] :]
    assert desk.conversation.handle_run(rest) is None
    answer = desk.conversation.handle(rest[: len(one)])
    assert isinstance(answer, Later)
    assert answer.answer is None
    assert desk.stored() == [[b"first", *[b"second"] * 3], [b"first"]]
    assert desk.broker.counters("t")["held"] == 1
    await desk.make_room()
    assert codes(answer) == [Code.NONE]
    assert desk.stored()[0] == [b"first", *[b"second"] * 4]
    assert isinstance(desk.conversation.handle(rest[len(one) :]), tuple)
