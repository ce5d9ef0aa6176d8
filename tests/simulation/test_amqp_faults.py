"""What would break the guarantees of AMQP queues is noticed in simulated runs."""

from collections.abc import Sequence

import pytest
from tests.simulation.lives import Fault, check_it_is_noticed
from tests.simulation.simulation import simulate

from mainstem.broker.door import AT_ONCE, Outcome
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.heads.amqp091.adapter.channel import AmqpChannel
from mainstem.heads.amqp091.adapter.publishing.publisher import Publisher
from mainstem.heads.amqp091.adapter.queues.deliveries import Deliveries, Unacked
from mainstem.heads.dispatcher import Consumer

CASTS = ("amqp", "queue")
STEPS = 1_000
CONFIRM, SETTLE, GIVEN = (
    Publisher._confirm,
    Deliveries.settle,
    Consumer.given,
)


def ack_the_first(self: Deliveries, found: Sequence[Unacked], outcome: Outcome) -> None:
    """Acknowledge the first of the messages that are given back."""
    SETTLE(self, found[:1], Outcome.ACK)
    SETTLE(self, found[1:], outcome)


def give_back_later(self: Deliveries) -> None:
    """Keep what a channel had when it closed."""


FAULTS: dict[str, Fault] = {
    "confirms before messages are durable": (
        Publisher,
        "_confirm",
        lambda self, pending, durable: CONFIRM(self, pending, AT_ONCE),
        "was confirmed, and .* has lost it",
    ),
    "a requeue loses a message": (
        Deliveries,
        "settle",
        ack_the_first,
        "was confirmed, and confirmed has lost it",
    ),
    "ack multiple takes one more": (
        Deliveries,
        "_up_to",
        lambda self, tag: [each for each in self._unacked if each <= tag + 1],
        "was refused: .*unknown delivery tag|has lost it|nobody has published it|messages, not",
    ),
    "ack multiple takes one less": (
        Deliveries,
        "_up_to",
        lambda self, tag: [each for each in self._unacked if each < tag],
        "delivered, though it was settled",
    ),
    "a transaction does not wait for its commit": (
        AmqpChannel,
        "publish",
        lambda self, message: self._connection.publisher.publish(self, message),
        "its transaction was not committed|only a part of the transaction",
    ),
    "a closed channel keeps its messages": (
        Deliveries,
        "give_back",
        give_back_later,
        "has lost it",
    ),
    "the prefetch is one more": (
        Consumer,
        "given",
        lambda self, count: GIVEN(self, count - 1),
        "messages, not",
    ),
    "a crash is not noticed": (
        LiveQueue,
        "be_unsure",
        lambda self: None,
        "not as redelivered",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_would_be_noticed_if(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    check_it_is_noticed(
        monkeypatch, FAULTS[fault], lambda seed: simulate(seed, casts=CASTS, steps=STEPS)
    )
