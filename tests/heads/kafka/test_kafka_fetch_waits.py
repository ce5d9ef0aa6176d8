"""Fetches that wait, and requests behind them on the same connection."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.broker.brokers import append
from tests.heads.contexts import kafka_service
from tests.heads.kafka.raw_peers import NEVER, Peer, produce, production, request, served

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import fetch
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProduceResponse
from mainstem.kafka_protocol.messages.topics import (
    DELETE_TOPICS,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from mainstem.kafka_protocol.primitives import size_of
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId

BATCH = bytes(build([Event(value=b"v")], now_ms=1))


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A client of a server whose topics have four partitions."""
    path: Path = tmp_path_factory.mktemp("served")
    with served(path) as address, Peer(address) as found:
        yield found


def waiting(
    *wanted: tuple[str, Sequence[tuple[int, int]]], min_bytes: int = 1, committed: bool = False
) -> bytes:
    """Return a fetch of partitions from their offsets on that waits for ever."""
    topics = [
        fetch.FetchTopic(
            topic=topic,
            partitions=[
                fetch.FetchPartition(number, fetch_offset=offset, partition_max_bytes=1 << 20)
                for number, offset in places
            ],
        )
        for topic, places in wanted
    ]
    wish = fetch.FetchRequest(
        max_wait_ms=NEVER,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        topics=topics,
    )
    return request(fetch.FETCH, 12, wish)


def appending(topic: str, partition: int) -> bytes:
    return request(PRODUCE, 9, production(topic, BATCH, partition))


def fetched(peer: Peer) -> list[list[fetch.FetchedPartition]]:
    answer = peer.answer(fetch.FETCH, 12, fetch.FetchResponse)
    return [list(topic.partitions) for topic in answer.responses]


def sizes(partitions: Sequence[fetch.FetchedPartition]) -> list[int]:
    """Return how many batches came of each partition."""
    assert all(each.error_code == 0 for each in partitions)
    return [size_of(each.records or b"") // len(BATCH) for each in partitions]


@pytest.mark.parametrize("committed", [False, True])
def test_a_fetch_is_answered_with_all_that_came_until_it_was_enough(
    peer: Peer, committed: bool
) -> None:
    topic = f"enough.{committed}"
    produce(peer, topic, BATCH, 1)
    places = [(0, 0), (1, 1), (2, 0), (3, 0)]

    wish = waiting((topic, places), min_bytes=3 * len(BATCH), committed=committed)
    peer.send(wish + b"".join(appending(topic, number) for number in (2, 0, 2)))
    (found,) = fetched(peer)

    for _ in range(3):
        peer.answer(PRODUCE, 9, ProduceResponse)
    assert sizes(found) == [1, 0, 2, 0]
    assert [each.high_watermark for each in found] == [1, 1, 2, 0]
    assert [each.last_stable_offset for each in found] == [1, 1, 2, 0]


def test_a_partition_that_is_named_twice_is_answered_twice(peer: Peer) -> None:
    produce(peer, "twice", BATCH)

    peer.send(waiting(("twice", [(0, 1), (0, 0)])))
    (found,) = fetched(peer)

    assert sizes(found) == [0, 1]


def test_a_topic_that_is_deleted_is_told_and_the_others_are_as_they_were(peer: Peer) -> None:
    produce(peer, "stays", BATCH)
    produce(peer, "goes", BATCH)
    deletion = DeleteTopicsRequest(topic_names=("goes",), timeout_ms=NEVER)

    peer.send(waiting(("stays", [(0, 1)]), ("goes", [(0, 1)])))
    peer.send(request(DELETE_TOPICS, 4, deletion))
    (stays,), (goes,) = fetched(peer)

    assert peer.answer(DELETE_TOPICS, 4, DeleteTopicsResponse).responses[0].error_code == 0
    assert (stays.error_code, stays.high_watermark) == (0, 1)
    assert goes.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


class WatchedLog(MemoryLog):
    """Counts how often somebody asks to be told of a partition."""

    watches = 0

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        self.watches += 1
        return super().watch(partition, offset, wake)


def test_what_grows_is_watched_anew_and_the_others_are_watched_already() -> None:
    partitions, appends = 100, 5
    log = WatchedLog()
    broker = Broker(log, lambda: 1)
    settings = TopicSettings(partitions=partitions, durability=Durability.MEMORY)
    broker.create_topic("t", settings)
    places = [(number, 0) for number in range(partitions)]

    async def scenario() -> Later:
        service = kafka_service(broker, lambda: 1, KafkaSettings(), settings)
        conversation = KafkaConversation(service, "peer")
        wish = waiting(("t", places), min_bytes=appends * len(BATCH))
        found = conversation.handle(memoryview(bytearray(wish)))
        assert isinstance(found, Later)
        for _ in range(appends):
            assert found.answer is None
            append(broker, "t", 7, bytearray(BATCH))
            await asyncio.sleep(0)
        return found

    answered = asyncio.run(scenario())

    assert answered.answer is not None
    assert log.watches == partitions + appends - 1
