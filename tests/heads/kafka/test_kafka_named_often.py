"""Requests that repeat a name: the response must not be much larger than the request."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.broker.brokers import new_broker, publish
from tests.heads.contexts import kafka_service
from tests.heads.kafka.raw_peers import Peer, produce, served

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.apis import list_offsets
from mainstem.heads.kafka.adapter.service import Asked
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages import producers
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    CommitPartition,
    CommitTopic,
    FetchedOffsetsTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from mainstem.kafka_protocol.messages.groups import (
    DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from mainstem.kafka_protocol.messages.offsets import (
    LIST_OFFSETS,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mainstem.kafka_protocol.messages.transactions import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from mainstem.kafka_protocol.server_codec import RequestHeader
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId, TimedOffset

OFTEN = ("one", "one", "other", "one")
_LATEST_TIME = -3


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A client of a server with a topic ``t``, of which group ``one`` has read two partitions."""
    with served(None) as address, Peer(address) as found:
        produce(found, "t", bytes(build([Event(value=b"v")], now_ms=1)))
        places = (CommitPartition(0, 1), CommitPartition(1, 2))
        wish = OffsetCommitRequest("one", topics=(CommitTopic(name="t", partitions=places),))
        found.ask(OFFSET_COMMIT, 9, wish, OffsetCommitResponse)
        yield found


def test_a_group_is_described_once(peer: Peer) -> None:
    asked = DescribeGroupsRequest(groups=OFTEN)

    answer = peer.ask(DESCRIBE_GROUPS, 5, asked, DescribeGroupsResponse)

    assert [each.group_id for each in answer.groups] == ["one", "other"]


def test_a_consumer_group_is_described_once(peer: Peer) -> None:
    asked = ConsumerGroupDescribeRequest(OFTEN)

    answer = peer.ask(CONSUMER_GROUP_DESCRIBE, 1, asked, ConsumerGroupDescribeResponse)

    assert [each.group_id for each in answer.groups] == ["one", "other"]


def test_a_transaction_is_described_once(peer: Peer) -> None:
    peer.ask(INIT_PRODUCER_ID, 4, InitProducerIdRequest("one", 1000), InitProducerIdResponse)
    asked = producers.DescribeTransactionsRequest(OFTEN)

    answer = peer.ask(
        producers.DESCRIBE_TRANSACTIONS, 0, asked, producers.DescribeTransactionsResponse
    )

    found = [(each.transactional_id, each.error_code) for each in answer.transaction_states]
    assert found == [("one", 0), ("other", Code.TRANSACTIONAL_ID_NOT_FOUND)]


def test_the_producers_of_a_partition_are_told_once(peer: Peer) -> None:
    topics = [
        producers.ProducersTopic("t", (0, 0, 1)),
        producers.ProducersTopic("none", (0,)),
        producers.ProducersTopic("t", 3 * (2, 0)),
    ]

    asked = producers.DescribeProducersRequest(topics)
    answer = peer.ask(producers.DESCRIBE_PRODUCERS, 0, asked, producers.DescribeProducersResponse)

    found = {each.name: [it.partition_index for it in each.partitions] for each in answer.topics}
    assert found == {"t": [0, 1, 2], "none": [0]}
    assert len(answer.topics) == 2


def cursors(topics: tuple[FetchedOffsetsTopic, ...]) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (topic.name, [(each.partition_index, each.committed_offset) for each in topic.partitions])
        for topic in topics
    ]


def test_cursors_of_a_group_are_told_once(peer: Peer) -> None:
    asked = OffsetFetchRequest([OffsetFetchGroup(name, topics=None) for name in OFTEN])

    answer = peer.ask(OFFSET_FETCH, 8, asked, OffsetFetchResponse)

    found = [(each.group_id, cursors(tuple(each.topics))) for each in answer.groups]
    assert found == [("one", [("t", [(0, 1), (1, 2)])]), ("other", [])]


@pytest.mark.parametrize("version", [7, 8])
def test_a_cursor_is_told_once(peer: Peer, version: int) -> None:
    topics = [OffsetFetchTopic(name="t", partition_indexes=numbers) for numbers in ((1, 1), (0, 1))]

    asked = OffsetFetchRequest(group_id="one", topics=topics)
    if version == 8:
        asked = OffsetFetchRequest([OffsetFetchGroup("one", topics=topics)])
    answer = peer.ask(OFFSET_FETCH, version, asked, OffsetFetchResponse)

    found = answer.groups[0].topics if version == 8 else answer.topics
    assert cursors(tuple(found)) == [("t", [(1, 2), (0, 1)])]


def test_who_asks_for_different_cursors_of_one_group_at_once_is_refused(peer: Peer) -> None:
    topic = OffsetFetchTopic(name="t", partition_indexes=(0,))
    wishes = [OffsetFetchGroup("one", topics=topics) for topics in ((topic,), None)]

    asked = OffsetFetchRequest([*wishes, OffsetFetchGroup("other", topics=None)])
    answer = peer.ask(OFFSET_FETCH, 8, asked, OffsetFetchResponse)

    found = [(each.group_id, Code(each.error_code)) for each in answer.groups]
    assert found == [("one", Code.INVALID_REQUEST), ("other", Code.NONE)]


class CountingLog(MemoryLog):
    """A log that counts how often it is searched."""

    searches = 0

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Search, and count."""
        self.searches += 1
        return super().offset_at(partition, timestamp_ms)


def listed(log: CountingLog, *places: ListOffsetsPartition) -> list[ListedOffset]:
    """Return what is told of places in a topic of three partitions with an event each."""
    answers: list[Wire | None] = []

    async def main() -> None:
        broker = new_broker(log)
        broker.create_topic("t", TopicSettings(partitions=3))
        for number in range(3):
            publish(broker, "t", b"v", partition=number)
        service = kafka_service(broker, lambda: 0, KafkaSettings())
        header = RequestHeader(LIST_OFFSETS.key, 7, 0, "test")
        asked = Asked(service, header, "127.0.0.1:1", set(), Later())
        wish = ListOffsetsRequest(topics=(ListOffsetsTopic("t", places),))
        list_offsets.answer(asked, wish, answers.append)

    asyncio.run(main())
    (answer,) = answers
    assert isinstance(answer, ListOffsetsResponse)
    return list(answer.topics[0].partitions)


@pytest.mark.parametrize("time", [1, _LATEST_TIME])
def test_a_time_is_looked_for_once_in_each_partition(time: int) -> None:
    once, often = CountingLog(), CountingLog()
    # An epoch below zero is none.
    wanted = [ListOffsetsPartition(number, epoch, time) for number in (0, 1) for epoch in (-1, -2)]

    single = listed(once, *wanted[::2])
    found = listed(often, *wanted * 10)

    assert found == [single[0], single[0], single[1], single[1]] * 10
    assert [each.offset for each in single] == [0, 0]
    assert often.searches == once.searches > 0
