"""Settlements without a response: when they are appended, and how many share an append."""

from collections import deque
from collections.abc import Callable

import pytest
from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.journal import IDS, QUEUES
from mainstem.broker.queues.records import Delivery, Order, Outcome
from mainstem.core.errors import MainstemError
from mainstem.heads.dispatcher import Dispatcher
from mainstem.heads.queue_consumer import settlement
from mainstem.heads.settlements import MANY, Settlements
from mainstem.log.port import PartitionId


class Room:
    """Settlements of a broker, with the calls that they have scheduled."""

    def __init__(self) -> None:
        self.desk = Desk(max_unsettled=2 * MANY)
        self.soon: deque[Callable[[], None]] = deque()
        self.later: deque[Callable[[], None]] = deque()
        self.refused: list[MainstemError] = []
        self.settlements = Settlements(self.soon.append, lambda _, call: self.later.append(call))

    def settle(
        self, *deliveries: Delivery, owner: str = "ann", outcome: Outcome = Outcome.ACK
    ) -> None:
        """Add deliveries one by one; what gives events back is settled soon."""
        for each in deliveries:
            self.settlements.add(
                self.desk.broker,
                ("orders", "emails"),
                owner,
                [settlement(each, outcome)],
                self.refused.append,
                soon=outcome is not Outcome.ACK,
            )

    def run(self, calls: deque[Callable[[], None]]) -> None:
        """Make the scheduled calls."""
        while calls:
            calls.popleft()()

    @property
    def unsettled(self) -> int:
        """How many events are not settled."""
        return self.desk.queues.show("orders", "emails").windows[0].unsettled

    @property
    def written(self) -> int:
        """How many records the journal of queues has."""
        return self.desk.log.bounds(PartitionId(IDS[QUEUES], 0)).tail


@pytest.fixture
def room() -> Room:
    return Room()


def test_acknowledgements_wait_for_others_and_are_one_append(room: Room) -> None:
    room.desk.publish(b"1", b"2", b"3")
    first, *others = [*room.desk.acquire(2), *room.desk.acquire(1, owner="bob")]
    before = room.written

    room.settle(first)
    room.settle(others[0])
    room.settle(others[1], owner="bob")
    assert (len(room.soon), len(room.later), room.unsettled) == (0, 1, 3)
    room.run(room.later)

    assert room.unsettled == 0
    assert room.written == before + 1
    assert room.refused == []


def test_what_gives_an_event_back_is_settled_soon_with_what_waited(room: Room) -> None:
    room.desk.publish(b"1", b"2")
    acked, requeued = room.desk.acquire(2)

    room.settle(acked)
    room.settle(requeued, outcome=Outcome.NACK)
    room.run(room.soon)

    assert room.desk.values() == [b"2"]
    assert room.unsettled == 1


def test_many_settlements_wait_no_longer(room: Room) -> None:
    room.desk.publish(*[b"event"] * MANY)
    deliveries = room.desk.acquire(MANY)

    room.settle(*deliveries)
    room.run(room.soon)

    assert room.unsettled == 0


def test_a_consumer_that_finds_the_queue_empty_gets_what_settlements_free(room: Room) -> None:
    desk = Desk(order=Order.KEY)
    room.desk, got = desk, list[Delivery]()
    desk.publish(b"1", b"2", key=b"same")
    dispatcher = Dispatcher(
        watch=desk.queues.watch, soon=room.soon.append, later=room.soon.append, clock=lambda: 0.0
    )
    dispatcher.dry = room.settlements.flush_soon

    def take(limit: int) -> int:
        taken = desk.acquire(limit)
        got.extend(taken)
        return len(taken)

    consumer = dispatcher.consume("orders", "emails", take, gone=room.refused.append, credit=1)
    room.run(room.soon)
    room.settle(got[0])
    consumer.add_credit(1)
    room.run(room.soon)

    assert [each.event.value for each in got] == [b"1", b"2"]


def test_the_owner_is_told_of_a_refused_settlement(room: Room) -> None:
    room.desk.publish(b"1")
    (delivery,) = room.desk.acquire()

    room.settle(delivery, owner="bob")
    room.run(room.later)

    assert len(room.refused) == 1
    assert room.unsettled == 1
