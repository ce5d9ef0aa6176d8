"""Topic consumers: every event once, limited by credit and the peer's reading."""

import asyncio

from tests.heads.contexts import context_on
from tests.heads.fake_outbox import FakeOutbox

from mainstem.broker.broker import Broker
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.topic_consumer import PORTION_EVENTS, TopicConsumer
from mainstem.log.memory import MemoryLog

TURNS = 50
"""So many turns of the loop are enough for whatever is under way."""


class Peer:
    """Who is sent events; it may stop reading."""

    def __init__(self, partitions: int = 1) -> None:
        self.broker = Broker(MemoryLog(now_ms=lambda: 0), lambda: 0)
        self.broker.create_topic("news", TopicSettings(partitions=partitions))
        self.context = context_on(self.broker, lambda: 0)
        self.outbox = FakeOutbox()
        self.got: list[str] = []
        self.over: list[MainstemError] = []

    def follow(self, *, credit: int | None = None, from_start: bool = False) -> TopicConsumer:
        return TopicConsumer(
            self.context,
            self.broker,
            self.outbox,
            "news",
            lambda events: self.got.extend(event.text() for event in events),
            self.over.append,
            credit=credit,
            from_start=from_start,
        )

    def publish(self, *values: str, partition: int = 0) -> None:
        self.broker.publish("news", [Event(value.encode()) for value in values], partition)

    async def rest(self) -> list[str]:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        got, self.got = self.got, []
        return got


async def test_a_follower_gets_what_comes_after_it_began() -> None:
    peer = Peer()
    peer.publish("old")
    peer.follow()
    assert await peer.rest() == []

    peer.publish("1", "2")
    first = await peer.rest()
    peer.publish("3")

    assert first == ["1", "2"]
    assert await peer.rest() == ["3"]


async def test_a_follower_may_begin_at_the_start() -> None:
    peer = Peer()
    peer.publish("old")
    peer.follow(from_start=True)

    assert await peer.rest() == ["old"]


async def test_credit_is_all_that_a_follower_sends() -> None:
    peer = Peer()
    consumer = peer.follow(credit=2)
    peer.publish(*"abcde")

    first = await peer.rest()
    consumer.add_credit(2)

    assert (first, await peer.rest(), consumer.credit) == (["a", "b"], ["c", "d"], 0)


async def test_a_peer_that_does_not_read_gets_one_portion_and_the_rest_later() -> None:
    peer = Peer()
    peer.follow()
    peer.outbox.is_full = True
    peer.publish(*(str(number) for number in range(1000)))

    first = await peer.rest()
    peer.outbox.read()
    then = await peer.rest()

    assert len(first) == PORTION_EVENTS
    assert first + then == [str(number) for number in range(1000)]


async def test_partitions_that_come_later_are_followed_from_their_start() -> None:
    peer = Peer(partitions=2)
    consumer = peer.follow()
    peer.publish("a", partition=0)
    peer.publish("b", partition=1)
    assert sorted(await peer.rest()) == ["a", "b"]

    peer.broker.alter_topic("news", partitions=3)
    peer.publish("c", partition=2)
    consumer.look()

    assert await peer.rest() == ["c"]


async def test_what_retention_took_is_counted_and_the_rest_comes() -> None:
    peer = Peer()
    consumer = peer.follow(credit=1)
    peer.publish("a")
    await peer.rest()
    peer.publish("b", "c")
    peer.publish("d")
    peer.broker.trim("news", 0, 3)

    consumer.add_credit(5)

    assert await peer.rest() == ["d"]
    assert consumer.missed == 2


async def test_a_topic_that_is_deleted_is_the_end() -> None:
    peer = Peer()
    consumer = peer.follow()
    await peer.rest()

    peer.broker.delete_topic("news")
    await peer.rest()
    consumer.look()

    (error,) = peer.over
    assert isinstance(error, UnknownTopic)


async def test_a_follower_that_is_closed_sends_nothing_more() -> None:
    peer = Peer()
    consumer = peer.follow()
    await peer.rest()

    consumer.close()
    peer.publish("a")

    assert await peer.rest() == []
