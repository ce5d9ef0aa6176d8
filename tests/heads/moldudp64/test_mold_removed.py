"""Feeds of topics from which events are removed between others: numbers stay what they were."""

from pathlib import Path

import pytest
from tests.broker.brokers import LateLog, new_broker, publish
from tests.heads.moldudp64.feed_head import (
    TOPIC,
    broker_with_topic,
    feeding,
    new_group,
)
from tests.heads.server_process import Process
from tests.heads.transport.echo import run, until
from tests.processes import wait_until

import mainstem
from mainstem.broker.broker import Broker
from mainstem.client.feeds.reassembly import Message
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.feeds import MulticastFeed, replayed
from mainstem.heads.moldudp64.adapter import NAME
from mainstem.heads.moldudp64.codec import Packet
from mainstem.heads.moldudp64.feeds import FeedDefinitions

REMOVES = [{"delete_acked": True}, {"compact": True}]
removing = pytest.mark.parametrize("settings", REMOVES, ids=["delete_acked", "compact"])


def words(count: int, first: int = 0) -> list[bytes]:
    return [b"message %d" % each for each in range(first, first + count)]


def put(broker: Broker, *values: bytes) -> None:
    """Publish each event with a key and in a batch of its own."""
    for value in values:
        broker.publish(TOPIC, [Event(value, value)]).durable.wait(30)


def remove(broker: Broker, *offsets: int) -> None:
    """Remove events as compaction and delete_acked do; the newest one stays."""
    if not offsets:
        return
    (at,) = broker.topic(TOPIC).partitions
    kept = set(range(max(offsets) + 1)) - set(offsets)
    broker._log.thin(at, max(offsets) + 1, kept)


@removing
def test_a_removed_message_is_empty_and_the_others_keep_their_numbers(
    settings: dict[str, object],
) -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic(**settings)
        put(broker, *words(10))
        async with feeding(broker, group) as feed:
            assert await feed.hears(10) == words(10)
        remove(broker, 2, 3, 4, 6)
        async with feeding(broker, group) as feed:
            feed.ask(3, 6)
            expected = (b"", b"", b"", b"message 5", b"", b"message 7")
            assert await feed.answers(1) == [Packet("S1", 3, expected)]
            put(broker, b"live")
            await until(lambda: feed.group.numbered == {11: b"live"})

    run("uvloop", scenario)


@removing
def test_events_removed_before_the_feed_began_have_no_number(settings: dict[str, object]) -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic(**settings)
        put(broker, *words(10))
        remove(broker, 0, 1, 5)
        expected = [each for at, each in enumerate(words(10)) if at not in (0, 1, 5)]
        async with feeding(broker, group) as feed:
            assert await feed.hears(7) == expected
        remove(broker, 0, 1, 2, 5, 8)
        async with feeding(broker, group) as feed:
            feed.ask(1, 7)
            gone = [b"" if each in (b"message 2", b"message 8") else each for each in expected]
            assert await feed.answers(1) == [Packet("S1", 1, tuple(gone))]

    run("uvloop", scenario)


def test_numbers_survive_however_often_events_are_removed_and_the_server_starts() -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic(delete_acked=True)
        expected: dict[int, bytes] = {}
        there = list[int]()
        for turn in range(8):
            put(broker, *words(20, 20 * turn))
            remove(broker, *(each for each in range(20 * turn) if each % (turn + 3)))
            async with feeding(broker, group) as feed:
                await feed.hears(20)
                assert not expected.keys() & feed.group.numbered.keys()
                expected |= feed.group.numbered
                feed.ask(1, 160)
                (answer,) = await feed.answers(1)
            there.append(sum(1 for each in answer.messages if each))
            for number, message in enumerate(answer.messages, answer.sequence):
                assert message in (b"", expected[number])
        assert sorted(expected) == list(range(1, 161))
        # Some are removed in each turn.
        assert there[-1] < 80 < len(answer.messages)

    run("uvloop", scenario)


def test_the_numbers_of_deleted_events_are_forgotten() -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic(delete_acked=True)
        stored = FeedDefinitions(broker.definitions.open(NAME))
        for turn in range(3):
            put(broker, *words(20, 20 * turn))
            broker.trim(TOPIC, 0, 20 * turn + 10)
            async with feeding(broker, group) as feed:
                await feed.hears(10)
        assert [mark.sequence for mark in stored.numbers("S1")] == [21, 31]

    run("uvloop", scenario)


def test_a_message_is_sent_only_when_its_number_is_durable() -> None:
    async def scenario() -> None:
        log = LateLog()
        broker = new_broker(log)
        broker.create_topic(TOPIC, TopicSettings().altered(delete_acked=True))
        publish(broker, TOPIC, *words(3))
        async with feeding(broker, new_group(), heartbeat_ms=10) as feed:
            await feed.hears(3)
            log.late = True
            broker.publish(TOPIC, [Event(each) for each in words(2, 3)])
            await until(lambda: len(log.commits) == 2)
            feed.ask(4, 1)
            await until(lambda: feed.outcomes() == {"not_yet": 1})
            assert sorted(feed.group.numbered) == [1, 2, 3]
            log.settle()
            assert await feed.hears(5) == words(5)

    run("uvloop", scenario)


@removing
def test_a_feed_stops_if_its_topic_is_changed_so_that_events_are_removed(
    settings: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic()
        put(broker, *words(10))
        async with feeding(broker, group) as feed:
            await feed.hears(10)
            # Compaction can be turned on only for a topic that is empty.
            broker.trim(TOPIC, 0, 10)
            broker.alter_topic(TOPIC, **settings).durable.wait(30)
            feed.ask(1, 1)
            await until(lambda: feed.outcomes() == {"unsupported": 1})
            put(broker, b"live")
            (publication,) = feed.head.publications()
            await until(lambda: "changed to compact or delete_acked" in publication.failed)
        # Nor does it begin again.
        async with feeding(broker, group) as feed:
            (publication,) = feed.head.publications()
            assert "as another session" in publication.failed
            feed.head.remove("S1").wait(30)
        async with feeding(broker, group) as feed:
            assert await feed.hears(1) == [b"live"]

    run("uvloop", scenario)
    assert "feed S1 has stopped: topic trades cannot be a feed" in caplog.text


def test_a_receiver_joins_a_compacted_topic_late_though_the_server_was_killed(
    tmp_path: Path,
) -> None:
    group, count = new_group(), 5_000
    settings: dict[str, object] = {
        "moldudp64__listen": "127.0.0.1:0",
        "moldudp64__feeds": f"S1=prices/0@{group}",
    }
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("prices", compact=True, segment_bytes=2_000, compact_share=0.01)
    with (
        Process(tmp_path / "data", upkeep_ms=3_600_000, **settings) as server,
        MulticastFeed(group, requests=server.addresses["moldudp64"]) as steady,
    ):
        with mainstem.connect(server.address) as stem:
            for each in range(0, count, 50):
                prices = [
                    Event(b"price %d" % it, b"%d" % (it % 10)) for it in range(each, each + 50)
                ]
                stem.publish_many("prices", prices)
        first = [steady.poll(60) for _ in range(count)]

    # It was killed -9. Each event's key has a later one, by now.
    with mainstem.open(tmp_path / "data", upkeep_ms=10) as stem:
        wait_until(
            lambda: len(list(stem.subscribe("prices", follow=False))) < count // 2,
            "nothing is compacted",
        )
    with Process(tmp_path / "data", **settings) as server:
        late = list(replayed(server.addresses["moldudp64"], "S1", 1, count))

    assert first == [Message(each + 1, b"price %d" % each) for each in range(count)]
    assert [each.sequence for each in late] == list(range(1, count + 1))
    removed = [each for each in late if not each.data]
    print(f"{len(removed)} of {count} messages were removed")  # noqa: T201 - for whoever asks with -s
    assert len(removed) > count // 2
    assert all(each == first[each.sequence - 1] for each in late if each.data)
    assert late[-1] == first[-1]
