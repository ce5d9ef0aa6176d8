"""Takes events of a queue on behalf of a peer, by credit; for topics there is ``follower``.

How this works: the dispatcher says whose turn it is. What is taken then is handed to ``send``, and
a peer that does not read is waited for, so that a consumer holds no events itself. What a peer has
not settled stays its own while it is connected (``renew``), and is given back when it goes
(``leave``). Used in the thread of the event loop.
"""

from collections.abc import Callable, Iterable, Sequence

from mainstem.broker.door import Delivery, Door, Outcome, Settled, Settlement
from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Outbox
from mainstem.heads.dispatcher import SessionCredit

PORTION_EVENTS = 256
PORTION_BYTES = 256 * 1024
"""So much is sent before it is looked whether the peer reads."""


def settlement(delivery: Delivery, outcome: Outcome = Outcome.ACK) -> Settlement:
    """Return what settles a delivery; it names the event, and does not hold it."""
    return Settlement(*delivery.event.position, outcome, delivery.lease)


class QueueConsumer:
    """One owner of deliveries of a queue."""

    def __init__(
        self,
        context: HeadContext,
        door: Door,
        outbox: Outbox,
        queue: tuple[str, str],
        owner: str,
        send: Callable[[list[Delivery]], None],
        gone: Callable[[MainstemError], None],
        *,
        credit: int | None = None,
        session: SessionCredit | None = None,
        priority: int = 0,
        auto_ack: bool = False,
        locked: bool = True,
    ) -> None:
        """``queue``: its topic and its name. ``gone``: it is over, why.

        ``credit``: how many events may be sent; None is no limit. ``session``: what several
        consumers may be sent together. ``auto_ack``: what is sent is settled by that. ``locked``:
        what is not settled or renewed in time goes to another consumer.
        """
        self.queue = queue
        self.owner = owner
        self._queues = door.queues
        self._outbox = outbox
        self._send = send
        self._gone = gone
        self._auto_ack = auto_ack
        self._locked = locked
        self._door = door
        self._settlements = context.settlements
        self._waits_for_room = self._has_taken = False
        self._consumer = context.dispatcher.consume(
            *queue, self._take, gone=gone, credit=credit, priority=priority, session=session
        )
        self.add_credit = self._consumer.add_credit

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Append what the peer says of its deliveries."""
        return self._queues.settle(*self.queue, self.owner, settlements)

    def renew(self, unsettled: Iterable[Settlement]) -> None:
        """Let the peer keep what it works on; what is lost by now is told when it is settled."""
        self._queues.renew(*self.queue, self.owner, unsettled)

    def lock_ms(self) -> int | None:
        """Return how long it may work on something without that; None if there is no such queue."""
        settings = self._queues.settings(*self.queue)
        return None if settings is None else settings.lock_ms

    def close(self) -> None:
        """Send nothing more; what the peer has may still be settled."""
        self._consumer.close()

    def leave(self) -> None:
        """Give back what the peer has not settled: it is delivered again."""
        if self._has_taken and not self._auto_ack:
            self._queues.leave(*self.queue, self.owner, failed=True)

    def _take(self, limit: int) -> int:
        self._has_taken = True
        taken = self._queues.acquire(
            *self.queue,
            self.owner,
            max_events=min(limit, PORTION_EVENTS),
            max_bytes=PORTION_BYTES,
            locked=self._locked,
        )
        if not taken:
            return 0
        self._send(taken)
        if self._auto_ack:
            said = [settlement(each) for each in taken]
            self._settlements.add(self._door, self.queue, self.owner, said, self._gone)
        if self._outbox.is_full and not self._waits_for_room:
            self._waits_for_room = True
            self._consumer.pause()
            self._outbox.when_room(self._has_room)
        return len(taken)

    def _has_room(self) -> None:
        self._waits_for_room = False
        self._consumer.resume()
