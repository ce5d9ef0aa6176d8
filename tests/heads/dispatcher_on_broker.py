"""A dispatcher on a real broker, driven step by step, and consumers that acquire from it."""

from collections import deque
from collections.abc import Callable, Collection

from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.queues.records import Delivery, Outcome
from mainstem.core.errors import MainstemError
from mainstem.heads.dispatcher import Consumer, Dispatcher, SessionCredit

TURNS = 10_000
"""More calls than this: the dispatcher never comes to rest."""


class Room:
    """A dispatcher for the queue ``emails`` of the topic ``orders``, and its pending calls."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.time_s = 0.0
        self.calls: deque[Callable[[], None]] = deque()
        self.asked: list[tuple[str, int]] = []
        """Consumers in the order they were offered events, and how many each took."""
        self.taking_s = 0.0
        """How long a take lasts."""
        self.dispatcher = Dispatcher(
            watch=desk.queues.watch,
            soon=self.calls.append,
            later=self.calls.append,
            clock=lambda: self.time_s,
        )

    def turn(self) -> None:
        """Run the pending calls, but none that they schedule."""
        for _ in range(len(self.calls)):
            self.calls.popleft()()

    def run(self) -> None:
        """Run calls until none is pending."""
        for _ in range(TURNS):
            if not self.calls:
                return
            self.calls.popleft()()
        raise AssertionError("the dispatcher never rests")

    def taker(
        self,
        name: str,
        credit: int | None = None,
        *,
        priority: int = 0,
        session: SessionCredit | None = None,
        partitions: Collection[int] | None = None,
        queue: str = "emails",
    ) -> "Taker":
        """Register a consumer of this name."""
        return Taker(self, name, credit, priority, session, partitions, queue)


class Taker:
    """A consumer that acquires what it is offered and settles on request."""

    def __init__(
        self,
        room: Room,
        name: str,
        credit: int | None,
        priority: int,
        session: SessionCredit | None,
        partitions: Collection[int] | None,
        queue: str,
    ) -> None:
        self.room, self.name, self.queue = room, name, queue
        self.held: list[Delivery] = []
        self.got: list[bytes] = []
        self.told: list[MainstemError] = []
        self.once = False
        self.count = 0
        """Events received in total."""
        self._partitions = partitions
        self.consumer: Consumer = room.dispatcher.consume(
            "orders",
            queue,
            self.take,
            gone=self.told.append,
            credit=credit,
            priority=priority,
            session=session,
            partitions=partitions,
        )

    def take(self, limit: int) -> int:
        assert limit > 0
        self.room.time_s += self.room.taking_s
        if self._partitions is None:
            queues = self.room.desk.queues
            found = queues.acquire("orders", self.queue, self.name, max_events=limit)
            self.held += found
            self.got += [each.event.value or b"" for each in found]
            count = len(found)
        else:
            count = self._lent(limit)
        self.count += count
        self.room.asked.append((self.name, count))
        if self.once and count:
            self.consumer.close()
        return count

    def probe(self) -> int:
        """Return how many events it could have had; another owner acquires them."""
        if self._partitions is not None:
            return self._lent(1, "somebody else")
        return len(self.room.desk.acquire(owner="somebody else", name=self.queue))

    def _lent(self, limit: int, owner: str | None = None) -> int:
        queues, numbers = self.room.desk.queues, self._partitions or ()
        lent = queues.acquire_batches(
            "orders", self.queue, owner or self.name, numbers, max_events=limit
        )
        return sum(run.last - run.first + 1 for each in lent for run in each.runs)

    def settle(self, outcome: Outcome, count: int | None = None) -> int:
        """Settle its oldest deliveries; return how many."""
        count = len(self.held) if count is None else count
        said, self.held = self.held[:count], self.held[count:]
        self.room.desk.settle(outcome, *said, owner=self.name)
        return len(said)
