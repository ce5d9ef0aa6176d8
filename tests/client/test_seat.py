"""A consumer's place at a queue: what it waits for when it is left."""

from tests.broker.brokers import LateLog
from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.queues.records import Outcome
from mainstem.client.seat import Held, Seat


def test_closing_waits_for_what_was_acked_before_something_was_refused() -> None:
    log = LateLog()
    desk = Desk(log)
    desk.publish(b"1")
    seat = Seat(desk.broker, "orders", "emails", "ann", after_crash=False)
    (delivery,) = (Held(seat, each) for each in seat.take(1))
    log.late = True
    acked = delivery.settle(Outcome.ACK)

    again = seat.settle([delivery.settlement(Outcome.ACK)])
    left = seat.leave()

    assert again.refused
    assert not acked.done
    assert not left.done
