"""Redeliveries decode each batch only once, and return what the log holds now."""

from collections.abc import Iterator

import pytest
from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.queues.batch_cache import BatchCache
from mainstem.broker.queues.records import Order
from mainstem.core.event import Event
from mainstem.core.records import events
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import PartitionId


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The record batches that queues unpacked."""
    seen: list[object] = []

    def count(batch: memoryview, **rest: object) -> Iterator[Event]:
        seen.append(batch)
        return events(batch, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr("mainstem.broker.queues.reader.events", count)
    return seen


def test_a_batch_is_unpacked_once_for_all_that_waited_for_their_key(
    unpacked: list[object],
) -> None:
    desk = Desk(order=Order.KEY)
    desk.publish(*(b"%d" % number for number in range(50)), key=b"k")
    got = []

    while deliveries := desk.acquire(2):
        got += [each.event.value for each in deliveries]
        desk.ack(*deliveries)

    assert got == [b"%d" % number for number in range(50)]
    assert len(unpacked) == 2


def test_a_batch_is_unpacked_once_for_all_that_are_delivered_again_or_buried(
    unpacked: list[object],
) -> None:
    desk = Desk(max_deliveries=3)
    desk.publish(*[b"bad"] * 10)

    while deliveries := desk.acquire():
        desk.nack(*deliveries)

    assert desk.broker.bounds("orders.dead", 0).tail == 10
    assert len(unpacked) == 2


def test_an_event_that_took_the_place_of_another_comes_again_as_itself() -> None:
    desk = Desk()
    desk.publish(b"first")
    for _ in range(2):
        desk.nack(*desk.acquire())

    desk.broker.truncate("orders", 0, 0)
    desk.publish(b"other")
    desk.nack(*desk.acquire())

    assert desk.values() == [b"other"]


def test_what_compaction_took_out_of_a_batch_does_not_come_again() -> None:
    desk = Desk()
    desk.broker.create_topic("table", TopicSettings(compact=True, segment_bytes=1024))
    desk.queues.create("table", "s")
    desk.broker.publish("table", [Event(b"old", b"k"), Event(b"kept", b"other")])
    for _ in range(2):
        assert len(desk.queues.acquire("table", "s", "ann", max_events=2)) == 2
        desk.queues.leave("table", "s", "ann")

    for number in range(100):
        desk.broker.publish("table", [Event(b"%d" % number * 30, b"k")])
    desk.log.upkeep()  # type: ignore[attr-defined]

    (first,) = desk.queues.acquire("table", "s", "ann")
    assert first.event.value == b"kept"


@pytest.mark.parametrize(
    "large",
    [
        Event(b"x" * 1_000),
        Event(None, b"x" * 1_000),
        Event(b"", headers=(("x" * 450, b"x" * 400),)),
    ],
)
def test_no_more_is_kept_than_there_is_room_for_and_the_last_in_any_case(large: Event) -> None:
    kept = BatchCache(max_bytes=10_000)
    heads = [(PartitionId("a", number), b"head") for number in range(100)]

    for head in heads:
        kept.keep(head, {0: large})
        assert kept.get(heads[0]) is not None
        assert kept.size_bytes <= 10_000
    assert len(kept) == 7
    assert kept.get(heads[-1]) is not None

    kept.keep((PartitionId("b", 0), b"head"), {0: Event(b"x" * 100_000)})
    assert len(kept) == 1
