"""Many waiting members of a share group: events are distributed, and few wake in vain."""

import asyncio
from collections.abc import Callable

import pytest
from tests.broker.brokers import new_broker, publish
from tests.heads.contexts import context_on
from tests.heads.kafka.raw_peers import NEVER, request

from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.share_fetch import (
    SHARE_FETCH,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId, Slice

MEMBERS = 30


class CountedLog(MemoryLog):
    """Counts who looks, and who asks to be told."""

    reads = watches = 0

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        self.reads += 1
        return super().read(partition, offset, max_bytes)

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        self.watches += 1
        return super().watch(partition, offset, wake)


class Crowd:
    """Members of the group ``g``, each with a connection of its own, on the topic ``t``."""

    def __init__(self) -> None:
        self.log = CountedLog()
        self.broker = new_broker(self.log)
        settings = TopicSettings(partitions=1, durability=Durability.MEMORY)
        self.topic = self.broker.create_topic("t", settings).topic
        self.broker.queues.create("t", "g")
        self.context = context_on(self.broker, lambda: 0)
        service = Service(self.context, KafkaSettings())
        self.peers = [KafkaConversation(service, f"peer {each}") for each in range(MEMBERS)]
        self.epochs = [0] * MEMBERS

    def fetch(self, member: int) -> Later:
        """Let a member wait for events."""
        partition = ShareFetchTopic(bytes.fromhex(self.topic.id), [ShareFetchPartition(0)])
        body = ShareFetchRequest(
            group_id="g",
            member_id=f"member {member}",
            share_session_epoch=self.epochs[member],
            max_wait_ms=NEVER,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=1,
            share_acquire_mode=1,
            topics=[partition],
        )
        self.epochs[member] += 1
        frame = memoryview(bytearray(request(SHARE_FETCH, 2, body)))
        answer = self.peers[member].handle(frame)
        assert isinstance(answer, Later)
        return answer

    async def settle_down(self) -> None:
        """Let everything happen that is to happen."""
        for _ in range(5):
            await asyncio.sleep(0)


async def waiting_crowd(members: int) -> tuple[Crowd, list[Later]]:
    """Return members, of which so many wait for events."""
    crowd = Crowd()
    waits = [crowd.fetch(member) for member in range(members)]
    await crowd.settle_down()
    return crowd, waits


def answered(waits: list[Later]) -> list[int]:
    return [member for member, wait in enumerate(waits) if wait.answer is not None]


def response(wait: Later) -> ShareFetchResponse:
    data = b"".join(bytes(piece) for piece in wait.take())  # type: ignore[arg-type]
    body = decode_response(SHARE_FETCH, 2, memoryview(data)[4:]).body
    assert isinstance(body, ShareFetchResponse)
    return body


async def test_one_event_wakes_one_member_and_the_others_wait_on() -> None:
    crowd, waits = await waiting_crowd(MEMBERS)
    before = crowd.log.watches

    publish(crowd.broker, "t", b"1")
    await crowd.settle_down()

    assert answered(waits) == [0]
    assert crowd.log.watches - before <= 2


async def test_members_that_wait_are_served_in_turn_also_when_they_come_back_at_once() -> None:
    crowd = Crowd()
    waits = [crowd.fetch(member) for member in range(MEMBERS)]
    served: list[int] = []
    for number in range(2 * MEMBERS):
        publish(crowd.broker, "t", b"%d" % number)
        await crowd.settle_down()
        (member,) = answered(waits)
        served.append(member)
        waits[member] = crowd.fetch(member)

    assert served == [*range(MEMBERS), *range(MEMBERS)]


async def test_who_asks_does_not_overtake_those_who_wait() -> None:
    crowd = Crowd()
    first = crowd.fetch(0)
    await crowd.settle_down()

    publish(crowd.broker, "t", b"1")
    second = crowd.fetch(1)

    assert first.answer is not None
    assert second.answer is None


@pytest.mark.parametrize("what", ["topic", "queue"])
async def test_who_waits_is_told_when_there_is_nothing_to_wait_for_any_more(what: str) -> None:
    crowd, waits = await waiting_crowd(3)

    if what == "topic":
        crowd.broker.delete_topic("t")
    else:
        crowd.broker.queues.delete("t", "g")
    await crowd.settle_down()

    assert answered(waits) == [0, 1, 2]
    for wait in waits:
        (topic,) = response(wait).responses
        codes = {Code(each.error_code) for each in topic.partitions}
        expected = Code.UNKNOWN_TOPIC_ID if what == "topic" else Code.GROUP_ID_NOT_FOUND
        assert codes == {expected}


@pytest.mark.parametrize("how", ["peer", "server"])
async def test_nothing_is_handed_out_to_who_waits_no_longer(how: str) -> None:
    crowd, waits = await waiting_crowd(3)

    if how == "peer":
        for peer in crowd.peers:
            peer.close()
    else:
        crowd.context.drain()
    publish(crowd.broker, "t", b"1")
    await crowd.settle_down()

    assert answered(waits) == [0, 1, 2]
    assert crowd.broker.queues.show("t", "g").owners == {}
    assert len(crowd.context.dispatcher) == 0
    assert not crowd.context.parked
