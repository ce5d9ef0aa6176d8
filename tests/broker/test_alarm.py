"""The alarm fires for every deadline that is earlier than the one before, whatever sets it."""

from collections.abc import Callable

import pytest
from tests.broker.brokers import Clock
from tests.broker.groups.classic.consumers import JOIN
from tests.broker.queues.queue_consumers import Desk
from tests.broker.transactions.transactional_producers import Bank

from mainstem.broker.broker import Broker
from mainstem.broker.groups.consumer.heartbeat import Heartbeat
from mainstem.broker.groups.consumer.records import NOTHING
from mainstem.broker.groups.share.group import ShareHeartbeat
from mainstem.broker.queues.records import Outcome

Step = Callable[[], object]
Kind = Callable[[Clock], tuple[Broker, Step]]


def classic_member(clock: Clock) -> tuple[Broker, Step]:
    broker = Bank(clock=clock).broker
    return broker, lambda: broker.classic.join(JOIN, lambda _: None)


def consumer_member(clock: Clock) -> tuple[Broker, Step]:
    broker = Bank(clock=clock).broker
    beat = Heartbeat(
        group="g",
        member_id="m",
        epoch=0,
        rebalance_timeout_ms=1_000,
        names=("t",),
        owned=NOTHING,
    )
    return broker, lambda: broker.consumers.heartbeat(beat)


def share_member(clock: Clock) -> tuple[Broker, Step]:
    broker = Bank(clock=clock).broker
    beat = ShareHeartbeat(group="g", member_id="m", epoch=0, topics=("t",))
    return broker, lambda: broker.share.heartbeat(beat)


def open_transaction(clock: Clock) -> tuple[Broker, Step]:
    bank = Bank(clock=clock)
    teller = bank.begin()
    return bank.broker, lambda: teller.add(0)


def idempotent_producer(clock: Clock) -> tuple[Broker, Step]:
    bank = Bank(clock=clock)
    producer_id = bank.broker.producers.new_id().producer_id
    return bank.broker, lambda: bank.write(producer_id, 0)


def locked_delivery(clock: Clock) -> tuple[Broker, Step]:
    desk = Desk(clock=clock)
    desk.publish(b"a", b"b")
    return desk.broker, desk.acquire


def delayed_delivery(clock: Clock) -> tuple[Broker, Step]:
    desk = Desk(clock=clock)
    desk.publish(b"a")
    taken = desk.acquire()
    return desk.broker, lambda: desk.settle(Outcome.NACK, *taken, delay_ms=10)


KINDS = [
    classic_member,
    consumer_member,
    share_member,
    open_transaction,
    idempotent_producer,
    locked_delivery,
    delayed_delivery,
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_earlier_deadline_is_told(kind: Kind) -> None:
    broker, step = kind(Clock())
    calls: list[None] = []
    broker.when_due_earlier(lambda: calls.append(None))
    before = broker.wait_ms()

    step()

    after = broker.wait_ms()
    assert after is not None
    assert before is None or after < before
    assert calls


def test_a_later_deadline_is_not_told() -> None:
    desk = Desk()
    desk.publish(b"a", b"b")
    desk.acquire()
    calls: list[None] = []
    desk.broker.when_due_earlier(lambda: calls.append(None))

    desk.clock.now_ms += 1
    desk.acquire()

    assert calls == []
