"""Queues that deliver events before they are durable, and what a crash leaves of them."""

from itertools import count
from random import Random

from tests.broker.brokers import append, transactional_batch
from tests.broker.queues.queue_consumers import Desk
from tests.faults.disk.crash_states import crashes
from tests.faults.disk.disk_steps import opened
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.door import QueueSettlements
from mainstem.broker.queues.records import Outcome, Settlement
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk import DiskLog


def commit(desk: Desk) -> None:
    assert isinstance(desk.log, DiskLog)
    desk.log.committer.commit()


def send(desk: Desk, *values: bytes) -> None:
    """Publish, without waiting for durability."""
    desk.broker.try_publish("orders", [Event(each) for each in values])


def test_an_event_is_delivered_and_settled_before_it_is_durable() -> None:
    desk = Desk(opened(SimFiles()), unsynced=True)
    commit(desk)
    woken: list[str] = []
    assert desk.acquire() == []
    desk.queues.watch("orders", "emails", lambda: woken.append("woken"))

    send(desk, b"1", b"2")

    assert woken == ["woken"]
    one, two = desk.acquire(2)
    assert [one.event.value, two.event.value] == [b"1", b"2"]
    desk.nack(one)
    assert desk.values() == [b"1"], "redelivered, and not durable either"
    desk.queues.leave("orders", "emails", "ann")
    desk.ack(*desk.acquire(2))
    assert desk.broker.bounds("orders", 0).tail == 0
    commit(desk)
    assert desk.broker.bounds("orders", 0).tail == 2
    assert desk.values() == []


def test_others_wait_until_an_event_is_durable() -> None:
    desk = Desk(opened(SimFiles()))
    commit(desk)
    send(desk, b"1")
    assert desk.values() == []
    commit(desk)
    assert desk.values() == [b"1"]


def test_a_dead_letter_is_made_of_an_event_that_is_not_durable() -> None:
    desk = Desk(opened(SimFiles()), unsynced=True)
    desk.broker.create_topic("orders.dead", TopicSettings())
    commit(desk)
    send(desk, b"1")

    desk.settle(Outcome.REJECT, *desk.acquire())

    commit(desk)
    assert desk.broker.bounds("orders.dead", 0).tail == 1
    assert desk.queues.show("orders", "emails").windows[0].missed == 0


def test_where_there_is_a_transaction_events_are_delivered_when_they_are_durable() -> None:
    desk = Desk(opened(SimFiles()), unsynced=True)
    commit(desk)
    send(desk, b"before")
    before = desk.acquire()
    transactions = desk.broker.transactions
    session = transactions.begin("tx", 60_000)
    who = ProducerIdAndEpoch(session.producer_id, session.epoch)
    transactions.add_partitions("tx", who, [("orders", 0)])
    append(desk.broker, "orders", 0, transactional_batch(who, b"within"))

    assert [each.event.value for each in before] == [b"before"]
    assert desk.values() == []
    transactions.end("tx", who, committed=True)
    assert desk.values() == []
    commit(desk)
    assert desk.values() == [b"within"]


def test_whatever_a_crash_leaves_the_queue_delivers_what_comes_after_it() -> None:
    files, ids = SimFiles(), count(1)
    desk = Desk(opened(files), ids=ids, unsynced=True)
    commit(desk)
    base = files.image()
    files.trace.clear()
    lost = kept = 0
    send(desk, b"1")
    commit(desk)
    for value in (b"2", b"3"):
        send(desk, value)
        said = [Settlement(*each.event.position, Outcome.ACK) for each in desk.acquire(2)]
        desk.queues.settle_all([QueueSettlements("orders", "emails", "ann", said)], lazy=True)
    commit(desk)

    for crash in crashes(base, files.trace, Random(1)):
        log = opened(SimFiles(crash.image))
        after = Desk(log, ids=ids)
        end = after.broker.bounds("orders", 0).end
        lost, kept = lost + (end == 0), kept + (end == 3)
        send(after, b"new")
        commit(after)
        left = [each for each in after.values() if each != b"new"]
        assert set(left) <= {b"1", b"2", b"3"}, crash.what
        after.queues.leave("orders", "emails", "ann")
        assert after.values()[-1] == b"new", f"{crash.what} at {crash.at}: lost what came after"
    assert lost
    assert kept
