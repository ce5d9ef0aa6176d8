"""Topics with ``delete_acked`` delete events that every queue and live group is done with."""

import pytest
from tests.broker.brokers import append, transactional_batch
from tests.broker.queues.queue_consumers import Desk
from tests.faults.disk.disk_steps import opened
from tests.faults.disk.simulated_disk import SimFiles
from tests.laws.log_implementations import all_events

from mainstem.broker.queues.acked_events import INTERVAL_MS, LIVE_MS
from mainstem.broker.queues.records import Settlement
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.log.disk import DiskLog

COUNT = 40
VALUE = b"x" * 100


@pytest.fixture
def desk() -> Desk:
    found = Desk(opened(SimFiles()), lock_ms=60_000)
    found.broker.alter_topic("orders", delete_acked=True, segment_bytes=1024)
    return found


def publish(desk: Desk) -> None:
    for _ in range(COUNT):
        desk.publish(VALUE)
    commit(desk)


def commit(desk: Desk) -> None:
    assert isinstance(desk.log, DiskLog)
    desk.log.committer.commit()


def look(desk: Desk) -> int:
    """Let a moment pass; return where the topic begins now."""
    look_without_upkeep(desk)
    keep_up(desk)
    return desk.broker.bounds("orders", 0).start


def look_without_upkeep(desk: Desk) -> None:
    commit(desk)
    tick(desk)


def tick(desk: Desk) -> None:
    desk.clock.now_ms += INTERVAL_MS
    desk.broker.tick()


def keep_up(desk: Desk) -> None:
    assert isinstance(desk.log, DiskLog)
    desk.log.upkeep.tick()


def stored(desk: Desk) -> list[int]:
    """Return the offsets of the events that the log still holds."""
    return [offset for offset, _ in all_events(desk.log, desk.broker.topic("orders").partitions[0])]


def transact(desk: Desk, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
    """Write one event in a transaction, and end that."""
    broker = desk.broker
    broker.transactions.add_partitions("t", producer, [("orders", 0)])
    value = b"committed" if committed else b"aborted"
    batch = transactional_batch(producer, value, sequence=int(committed))
    append(broker, "orders", 0, batch)
    broker.transactions.end("t", producer, committed=committed)
    commit(desk)


def test_what_every_queue_has_settled_is_deleted(desk: Desk) -> None:
    desk.queues.create("orders", "sms")
    publish(desk)
    desk.ack(*desk.acquire(COUNT))
    assert look(desk) == 0

    sms = desk.queues.acquire("orders", "sms", "ann", max_events=COUNT)
    said = [Settlement(0, each.event.offset, lease=each.lease) for each in sms]
    desk.queues.settle("orders", "sms", "ann", said)

    assert look(desk) == COUNT
    assert desk.broker.bounds("orders", 0).size_bytes < COUNT * len(VALUE)
    desk.publish(b"more")
    commit(desk)
    assert desk.values() == [b"more"]


def test_nothing_is_deleted_before_its_settlement_is_durable(desk: Desk) -> None:
    publish(desk)
    desk.ack(*desk.acquire(COUNT))

    tick(desk)
    assert desk.broker.bounds("orders", 0).start == 0

    assert look(desk) == COUNT


def test_what_was_settled_before_is_deleted_though_more_is_settled_all_the_time(
    desk: Desk,
) -> None:
    publish(desk)
    first, *others = desk.acquire(COUNT)
    desk.ack(*others[: COUNT // 2])
    tick(desk)
    commit(desk)
    desk.ack(first)
    tick(desk)
    commit(desk)
    assert desk.broker.bounds("orders", 0).start == 0
    desk.ack(*others[COUNT // 2 : -1])

    tick(desk)

    # The first one, and those that were settled at the first check, are settled for good.
    assert desk.broker.bounds("orders", 0).start == 1 + COUNT // 2


def test_one_that_is_stuck_keeps_only_itself(desk: Desk) -> None:
    publish(desk)
    stuck, *others = desk.acquire(COUNT)
    desk.ack(*others)

    assert look(desk) == 0
    assert look(desk) == 0
    assert stored(desk) == [stuck.event.offset, COUNT - 1]

    desk.nack(stuck)
    (again,) = desk.acquire(COUNT)
    assert again.event == stuck.event
    desk.ack(again)
    assert look(desk) == COUNT


def test_what_is_settled_within_a_second_is_not_rewritten(desk: Desk) -> None:
    publish(desk)
    stuck, *others = desk.acquire(COUNT)
    desk.ack(*others)
    assert look(desk) == 0
    assert len(stored(desk)) == COUNT

    desk.ack(stuck)

    assert look(desk) == COUNT


def test_only_what_no_queue_needs_goes(desk: Desk) -> None:
    desk.queues.create("orders", "sms")
    publish(desk)
    emails = desk.acquire(COUNT)
    desk.ack(*emails[1:])
    sms = desk.queues.acquire("orders", "sms", "ann", max_events=COUNT)
    said = [Settlement(0, each.event.offset, lease=each.lease) for each in sms if each != sms[30]]
    desk.queues.settle("orders", "sms", "ann", said)
    look(desk)
    look(desk)

    assert stored(desk) == [0, 30, COUNT - 1]


def test_what_is_needed_is_there_after_a_restart(desk: Desk) -> None:
    publish(desk)
    acquired = desk.acquire(COUNT)
    desk.ack(*(each for each in acquired if each.event.offset not in (0, 17)))
    look(desk)

    again = desk.restarted()
    look(again)
    look(again)

    assert stored(again) == [0, 17, COUNT - 1]
    assert [each.event.offset for each in again.acquire(COUNT)] == [0, 17]


def test_a_queue_that_is_moved_back_gets_what_is_still_there(desk: Desk) -> None:
    publish(desk)
    desk.ack(*desk.acquire(COUNT)[1:])
    look_without_upkeep(desk)
    look_without_upkeep(desk)

    desk.queues.seek("orders", "emails", {0: 1})
    keep_up(desk)

    assert [each.event.offset for each in desk.acquire(COUNT)] == list(range(1, COUNT))


def test_a_group_that_is_moved_back_gets_what_is_still_there(desk: Desk) -> None:
    publish(desk)
    desk.broker.commit("readers", {("orders", 0): COUNT})
    desk.ack(*desk.acquire(COUNT)[1:])
    look_without_upkeep(desk)
    look_without_upkeep(desk)

    desk.broker.commit("readers", {("orders", 0): 5})
    keep_up(desk)
    look(desk)

    assert stored(desk)[-1 * (COUNT - 5) :] == list(range(5, COUNT))


def test_the_marker_of_an_aborted_transaction_stays_while_something_before_it_does(
    desk: Desk,
) -> None:
    desk.publish(VALUE)
    commit(desk)
    (stuck,) = desk.acquire()
    begun = desk.broker.transactions.begin("t", 60_000)
    producer = ProducerIdAndEpoch(begun.producer_id, begun.epoch)
    for committed in (False, True):
        transact(desk, producer, committed=committed)
    publish(desk)
    desk.ack(*desk.acquire(100))
    look(desk)
    look(desk)

    desk.queues.seek("orders", "emails", {0: 1})
    values = [each.event.value for each in desk.acquire(100)]

    assert stuck.event.offset == 0
    assert values[:1] == [b"committed"]
    assert b"aborted" not in values


def test_a_live_group_keeps_what_it_has_not_read(desk: Desk) -> None:
    publish(desk)
    desk.broker.commit("readers", {("orders", 0): 1})
    desk.ack(*desk.acquire(COUNT))
    assert look(desk) == 0

    desk.clock.now_ms += LIVE_MS
    desk.publish(VALUE)
    commit(desk)
    desk.ack(*desk.acquire())

    assert look(desk) == COUNT + 1


def test_nothing_is_deleted_where_that_is_not_set() -> None:
    desk = Desk(opened(SimFiles()))
    publish(desk)
    desk.ack(*desk.acquire(COUNT))

    assert look(desk) == 0
    assert desk.broker.wait_ms() != 0
