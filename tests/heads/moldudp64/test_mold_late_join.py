"""From an offset to a sequence number, so that who has a snapshot can go on from there."""

import pytest
from tests.broker.brokers import publish
from tests.broker.transactions.transactional_producers import Bank
from tests.heads.moldudp64.feed_head import TOPIC, FeedHead, broker_with_topic, feeding, new_group
from tests.heads.transport.echo import run, until

from mainstem.core.errors import OffsetOutOfRange
from mainstem.heads.admin_operations import OperationFailed


def words(count: int, first: int = 0) -> list[bytes]:
    return [b"message %d" % each for each in range(first, first + count)]


def sequence_at(feed: FeedHead, offset: int) -> int:
    return feed.head.find("S1").sequence_at(feed.broker, offset)


def visible(bank: Bank) -> list[tuple[int, bytes | None]]:
    """Return offsets and values of the committed events."""
    found = bank.broker.follow("t", 0, 0).take(10_000)
    return [(each.offset, each.value) for each in found]


def test_every_offset_leads_to_the_message_at_it_or_behind_it() -> None:
    group = new_group()

    async def scenario() -> None:
        bank = Bank()
        teller = bank.begin()
        for each in range(0, 900, 3):
            teller.add(0)
            teller.write(*words(3, each))
            teller.end(committed=each % 2 == 0)
        events = visible(bank)
        async with feeding(bank.broker, group, feeds=f"S1=t/0@{group}") as feed:
            await feed.hears(len(events))
            check(feed, events)
        # After a restart there are fewer marks.
        async with feeding(bank.broker, group, feeds=f"S1=t/0@{group}") as feed:
            check(feed, events)

    def check(feed: FeedHead, events: list[tuple[int, bytes | None]]) -> None:
        tail = feed.broker.bounds("t", 0).tail
        for offset in range(tail + 1):
            expected = 1 + sum(1 for at, _ in events if at < offset)
            assert sequence_at(feed, offset) == expected, offset
        with pytest.raises(OperationFailed, match="has no sequence number in session S1 yet"):
            sequence_at(feed, tail + 1)

    run("uvloop", scenario)


@pytest.mark.parametrize("settings", [{}, {"delete_acked": True}])
def test_offsets_lead_to_numbers_though_events_were_deleted(settings: dict[str, object]) -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic(**settings)
        publish(broker, TOPIC, *words(10))
        broker.trim(TOPIC, 0, 4)
        async with feeding(broker, group) as feed:
            assert await feed.hears(6) == words(6, 4)
            assert [sequence_at(feed, offset) for offset in range(4, 11)] == [1, 2, 3, 4, 5, 6, 7]
            with pytest.raises(OffsetOutOfRange, match="4 to 10"):
                sequence_at(feed, 3)

    run("uvloop", scenario)


def test_offsets_of_removed_events_lead_to_their_numbers() -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic(delete_acked=True)
        for each in words(20):
            publish(broker, TOPIC, each)
        (at,) = broker.topic(TOPIC).partitions
        broker._log.thin(at, 10, {0, 3, 4, 9})
        async with feeding(broker, group) as feed:
            await feed.hears(14)
            expected = [1, 2, 2, 2, 3, 4, 4, 4, 4, 4, 5, 6]
            assert [sequence_at(feed, offset) for offset in range(12)] == expected
            broker._log.thin(at, 19, {0, 9})
        async with feeding(broker, group) as feed:
            await until(lambda: feed.head.find("S1").next_sequence == 15)
            assert [sequence_at(feed, offset) for offset in range(12)] == expected

    run("uvloop", scenario)
