"""Consumes a queue on behalf of a peer, limited by credit; for topics there is ``topic_consumer``.

How this works: the dispatcher calls the consumer round robin with others; it acquires deliveries
and passes them to ``send``. It buffers no events: it pauses while the peer does not read. A
connected peer keeps its unsettled deliveries (``renew``); they are released when it disconnects
(``leave``). Only the event loop calls this module.
"""

from collections.abc import Callable, Iterable, Sequence

from mainstem.broker.door import Delivery, Door, Outcome, Settled, Settlement
from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Room
from mainstem.heads.dispatcher import SessionCredit

PORTION_EVENTS = 256
PORTION_BYTES = 256 * 1024
"""Maximum number of bytes sent before checking whether the peer reads."""


def settlement(delivery: Delivery, outcome: Outcome = Outcome.ACK) -> Settlement:
    """Return the settlement of a delivery; it keeps the event's position, but not the event."""
    event = delivery.event
    return Settlement(event.partition, event.offset, outcome, delivery.lease)


class QueueConsumer:
    """A peer's consumer of one queue."""

    def __init__(
        self,
        context: HeadContext,
        door: Door,
        outbox: Room,
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
        single: bool = False,
    ) -> None:
        """``queue``: topic and name. ``gone``: called if the queue is deleted or taking fails.

        ``credit``: how many events may be sent; None is no limit. ``session``: a credit that
        several consumers share. ``auto_ack``: sending an event settles it. ``locked``: events that
        are not settled or renewed in time go to another consumer. ``single``: only the queue's
        oldest consumer gets events.
        """
        self.queue = queue
        self.owner = owner
        self._queues = door.queues
        self._door, self._outbox = door, outbox
        self._send, self._gone = send, gone
        self._auto_ack, self._locked = auto_ack, locked
        self._settlements = context.settlements
        self._waits_for_room = self._has_taken = False
        self._consumer = context.dispatcher.consume(
            *queue,
            self._take,
            gone=gone,
            credit=credit,
            priority=priority,
            session=session,
            single=single,
        )
        self.add_credit = self._consumer.add_credit

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries that the peer got through this consumer."""
        return self._queues.settle(*self.queue, self.owner, settlements)

    def renew(self, unsettled: Iterable[Settlement]) -> None:
        """Extend the locks of unsettled deliveries.

        A lock that is already lost is reported when the delivery is settled.
        """
        self._queues.renew(*self.queue, self.owner, unsettled)

    def lock_ms(self) -> int | None:
        """Return the lock duration of the queue in ms, None if the queue does not exist."""
        settings = self._queues.settings(*self.queue)
        return None if settings is None else settings.lock_ms

    def close(self) -> None:
        """Stop sending events; the peer may still settle its deliveries."""
        self._consumer.close()

    def leave(self) -> None:
        """Release the peer's unsettled deliveries, which count towards ``max_deliveries``."""
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
        try:
            self._send(taken)
        except BaseException:
            # Without a lock, nothing else would return these while the peer is connected.
            back = [settlement(each, Outcome.NACK) for each in taken]
            self._queues.settle(*self.queue, self.owner, back)
            raise
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
