"""Dead letters of queues, with the reason and origin in their headers."""

import pytest
from tests.broker.brokers import FullLog, LateLog, publish, read_all, values
from tests.broker.queues.queue_consumers import LOCK_MS, Desk

from mainstem.broker.groups.share.group import ShareHeartbeat
from mainstem.broker.queues.records import Outcome, Settlement
from mainstem.core.dead_letters import MAX_REASON, origin_of, revived, topic_of
from mainstem.core.errors import DamagedLog, StorageFailed, StorageFull, UnknownTopic
from mainstem.core.event import Event
from mainstem.log.port import PartitionId, Slice


def test_after_the_last_delivery_an_event_is_a_dead_letter_with_its_story() -> None:
    desk = Desk(max_deliveries=2)
    desk.broker.publish("orders", [Event(b"bad", b"k", (("own", b"1"),), 77), Event(b"good")], 0)
    for _ in range(2):
        (delivery,) = desk.acquire()
        desk.nack(delivery, reason="it does not add up")

    (letter,) = read_all(desk.broker, "orders.dead")

    assert (letter.value, letter.key) == (b"bad", b"k")
    assert revived(letter) == Event(b"bad", b"k", (("own", b"1"),))
    origin = origin_of(letter)
    assert origin is not None
    assert (origin.topic, origin.partition, origin.offset) == ("orders", 0, 0)
    assert (origin.queue, origin.deliveries) == ("emails", 2)
    assert (origin.reason, origin.timestamp_ms) == ("it does not add up", 77)
    assert desk.values() == [b"good"]


def test_an_event_that_nobody_settles_in_time_is_a_dead_letter_in_the_end() -> None:
    desk = Desk(max_deliveries=2)
    desk.publish(b"slow")
    for _ in range(2):
        assert desk.values() == [b"slow"]
        desk.clock.now_ms += LOCK_MS

    desk.broker.tick()

    assert values(read_all(desk.broker, "orders.dead")) == [b"slow"]
    assert desk.values() == []


def test_a_rejected_event_is_a_dead_letter_at_once() -> None:
    desk = Desk()
    desk.publish(b"bad")

    desk.settle(Outcome.REJECT, *desk.acquire(), reason="no such customer")

    (letter,) = read_all(desk.broker, "orders.dead")
    origin = origin_of(letter)
    assert origin is not None
    assert origin.reason == "no such customer"


@pytest.mark.parametrize("length", [245, 249])
def test_a_topic_whose_name_leaves_no_room_has_dead_letters_under_a_shorter_one(
    length: int,
) -> None:
    desk, long = Desk(), "x" * length
    desk.broker.create_topic(long)
    desk.queues.create(long, "emails")
    publish(desk.broker, long, b"bad")

    (delivery,) = desk.queues.acquire(long, "emails", "ann")
    rejected = Settlement(0, 0, Outcome.REJECT, delivery.lease)
    assert desk.queues.settle(long, "emails", "ann", [rejected]).refused == {}

    (letter,) = read_all(desk.broker, topic_of(long))
    origin = origin_of(letter)
    assert origin is not None
    assert (letter.value, origin.topic) == (b"bad", long)


def test_a_batch_is_read_once_however_many_of_its_events_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    desk.publish(*[b"bad"] * 100)
    held = desk.acquire(100)
    reads: list[int] = []
    read = desk.log.read

    def count(at: PartitionId, offset: int, max_bytes: int) -> Slice:
        reads.append(offset)
        return read(at, offset, max_bytes)

    monkeypatch.setattr(desk.log, "read", count)
    desk.settle(Outcome.REJECT, *held)

    assert len(reads) == 1
    assert len(read_all(desk.broker, "orders.dead")) == 100


@pytest.mark.parametrize("events", [2, 100])
def test_what_was_deleted_before_it_could_be_a_dead_letter_is_missed(events: int) -> None:
    desk = Desk(max_deliveries=1)
    desk.publish(*(b"%d" % number for number in range(events)))
    rejected, late, *_ = desk.acquire(events)

    desk.broker.trim("orders", 0, 2)
    desk.settle(Outcome.REJECT, rejected)
    assert desk.queues.show("orders", "emails").windows[0].missed == 1
    desk.nack(late)

    assert not desk.broker.topics("orders.dead")
    for each in (desk, desk.restarted()):
        assert each.queues.show("orders", "emails").windows[0].missed == 2


def test_without_dead_letters_such_an_event_is_gone() -> None:
    desk = Desk(max_deliveries=1, dead_letters=False)
    desk.publish(b"bad")

    desk.nack(*desk.acquire())

    assert desk.values() == []
    with pytest.raises(UnknownTopic):
        desk.broker.topic("orders.dead")


def test_a_dead_letter_and_its_settlement_are_one_append() -> None:
    log = LateLog()
    desk = Desk(log, max_deliveries=1)
    desk.publish(b"bad")
    desk.nack(*desk.acquire())
    desk.publish(b"worse")
    log.late = True

    desk.nack(*desk.acquire())

    assert len(log.commits) == 1


def test_without_room_for_a_dead_letter_nothing_is_settled() -> None:
    log = FullLog()
    desk = Desk(log, max_deliveries=1)
    desk.publish(b"1", b"2")
    desk.nack(desk.acquire()[0])
    (delivery,) = desk.acquire()

    log.is_full = True
    with pytest.raises(StorageFull):
        desk.nack(delivery)
    desk.clock.now_ms += LOCK_MS
    desk.broker.tick()
    assert desk.values() == []

    log.is_full = False
    desk.broker.tick()
    assert values(read_all(desk.broker, "orders.dead")) == [b"1", b"2"]
    assert desk.restarted().values() == []


def test_what_cannot_be_read_to_be_buried_keeps_nobody_from_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(max_deliveries=1, partitions=2)
    desk.publish(b"1")
    desk.publish(b"2", partition=1)
    assert len(desk.acquire(2)) == 2
    read, damaged = desk.log.read, desk.broker.topic("orders").partitions[0]

    def read_some(at: PartitionId, offset: int, max_bytes: int) -> Slice:
        if (at, offset) == (damaged, 0):
            raise DamagedLog("a segment cannot be read")
        return read(at, offset, max_bytes)

    monkeypatch.setattr(desk.log, "read", read_some)
    desk.clock.now_ms += LOCK_MS
    desk.broker.tick()
    desk.publish(b"3", partition=1)

    assert desk.values() == [b"3"]
    assert values(read_all(desk.broker, "orders.dead")) == [b"2"]
    monkeypatch.undo()
    desk.broker.tick()
    assert values(read_all(desk.broker, "orders.dead")) == [b"2", b"1"]


def test_a_log_that_has_stopped_does_not_stop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(max_deliveries=1)
    desk.broker.share.heartbeat(
        ShareHeartbeat(group="others", member_id="bob", epoch=0, topics=("orders",))
    )
    desk.publish(b"1")
    desk.acquire()

    def stopped(*_: object, **__: object) -> None:
        raise StorageFailed("the disk failed")

    monkeypatch.setattr(desk.log, "append", stopped)
    desk.clock.now_ms += 45_000
    desk.broker.tick()

    assert not desk.broker.share.has_members("others")


def test_a_reason_is_cut_to_what_a_header_should_hold() -> None:
    desk = Desk()
    desk.publish(b"bad")

    desk.settle(Outcome.REJECT, *desk.acquire(), reason="\ud800" + "x" * 10_000_000)

    (letter,) = read_all(desk.broker, "orders.dead")
    origin = origin_of(letter)
    assert origin is not None
    assert origin.reason == "?" + "x" * (MAX_REASON - 1)
