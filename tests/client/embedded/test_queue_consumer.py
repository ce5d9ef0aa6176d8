"""A consumer of a queue: which settlements it waits for when it leaves."""

from tests.broker.brokers import LateLog
from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.queues.records import Outcome
from mainstem.client.embedded.queue_consumer import HeldDelivery, QueueConsumer


def test_closing_waits_for_what_was_acked_before_something_was_refused() -> None:
    log = LateLog()
    desk = Desk(log)
    desk.publish(b"1")
    consumer = QueueConsumer(desk.broker, "orders", "emails", "ann", after_crash=False)
    (delivery,) = (HeldDelivery(consumer, each) for each in consumer.take(1))
    log.late = True
    acked = delivery.settle(Outcome.ACK)

    again = consumer.settle([delivery.settlement(Outcome.ACK)])
    left = consumer.leave()

    assert again.refused
    assert not acked.done
    assert not left.done
