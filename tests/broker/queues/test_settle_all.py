"""Settling deliveries of several queues and owners together; deliveries without a lock."""

from tests.broker.brokers import LateLog
from tests.broker.queues.queue_consumers import LOCK_MS, Desk
from tests.faults.disk.disk_steps import killed, opened
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.door import QueueSettlements, TopicEvents
from mainstem.broker.queues.records import Delivery, Outcome, Settlement
from mainstem.core.errors import StaleDelivery, UnknownQueue
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings


def settlements(
    name: str, owner: str, *deliveries: Delivery, outcome: Outcome = Outcome.ACK
) -> QueueSettlements:
    said = [Settlement(*each.event.position, outcome, each.lease) for each in deliveries]
    return QueueSettlements("orders", name, owner, said)


def test_deliveries_of_several_queues_and_owners_are_settled_in_one_append() -> None:
    log = LateLog()
    desk = Desk(log)
    desk.queues.create("orders", "sms")
    desk.publish(b"1", b"2")
    (ann,), (bob,) = desk.acquire(owner="ann"), desk.acquire(owner="bob")
    (sms,) = desk.acquire(name="sms")
    log.appends = 0

    settled = desk.queues.settle_all(
        [
            settlements("emails", "ann", ann),
            settlements("emails", "bob", bob),
            settlements("sms", "ann", sms, outcome=Outcome.NACK),
        ]
    )

    assert [each.refused for each in settled] == [{}, {}, {}]
    assert log.appends == 1
    assert [each.windows[0].unsettled for each in desk.queues.every()] == [0, 2]


def test_what_is_refused_of_one_does_not_concern_the_others() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    mine, other = desk.acquire(2)

    settled = desk.queues.settle_all(
        [
            settlements("nothing", "ann", mine),
            settlements("emails", "bob", other),
            settlements("emails", "ann", mine),
        ]
    )

    assert isinstance(settled[0].refused[0], UnknownQueue)
    assert isinstance(settled[1].refused[0], StaleDelivery)
    assert settled[2].refused == {}
    assert desk.queues.show("orders", "emails").windows[0].out == 1


def test_a_lazy_settlement_survives_kill_9_though_nothing_was_synced() -> None:
    files = SimFiles()
    desk = Desk(opened(files))
    desk.publish(b"1", b"2")
    desk.log.committer.commit()  # type: ignore[attr-defined]
    first, _ = desk.acquire(2)

    (settled,) = desk.queues.settle_all([settlements("emails", "ann", first)], lazy=True)

    assert not settled.durable.done
    after = Desk(opened(killed(files)), ids=desk.ids)
    assert after.values() == [b"2"]


def test_without_a_lock_a_delivery_stays_with_its_owner_until_it_leaves() -> None:
    desk = Desk()
    desk.publish(b"1")
    (delivery,) = desk.queues.acquire("orders", "emails", "ann", locked=False)
    assert delivery.until_ms is None

    desk.clock.now_ms += 10 * LOCK_MS
    desk.queues.registry.tick()
    assert desk.acquire(owner="bob") == []
    assert desk.queues.registry.next_wait_ms() is None
    assert desk.queues.show("orders", "emails").windows[0].out == 1

    desk.queues.leave("orders", "emails", "ann", failed=True)
    assert desk.values(owner="bob") == [b"1"]


def test_events_published_together_go_to_the_partitions_given() -> None:
    desk = Desk()
    desk.broker.create_topic("levels", TopicSettings(partitions=3))

    desk.broker.publish_all(
        [TopicEvents("levels", [Event(b"high")], 2), TopicEvents("levels", [Event(b"low")], 0)]
    )

    assert [desk.broker.bounds("levels", each).tail for each in range(3)] == [1, 0, 1]


def test_purging_settles_what_is_not_out() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3", b"4")
    out, back = desk.acquire(2)
    desk.nack(back)

    count, durable = desk.queues.purge("orders", "emails")

    assert durable.wait(30)
    assert count == 3
    assert desk.values() == []
    after = desk.restarted()
    assert after.values() == [b"1"], "what was out comes again after a crash"
    desk.ack(out)
    desk.publish(b"5")
    assert desk.values() == [b"5"]
