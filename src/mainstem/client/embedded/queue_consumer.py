"""A consumer of a queue in this process that never waits; blocking and async queues use it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from traceback import TracebackException

from mainstem.broker.door import AT_ONCE, Delivery, Door, Durable, Outcome, Settled, Settlement
from mainstem.client.checks import milliseconds
from mainstem.client.embedded.ack_batching import SettlementWindow
from mainstem.core.errors import (
    Closed,
    InvalidSetting,
    StaleDelivery,
    UnknownQueue,
    UnknownTopic,
)
from mainstem.core.event import Event

Call = Callable[[], None]


class QueueConsumer:
    """Acquires and settles deliveries for one consumer; thread-safe."""

    def __init__(
        self, broker: Door, topic: str, name: str, consumer: str, *, after_crash: bool
    ) -> None:
        self._queues = broker.queues
        self._after_crash = after_crash
        self._place = (topic, name)
        self.id = consumer
        self.closed: str | None = None
        """The reason, as the error message, once it is closed; None while it is open."""
        self._last: Durable = AT_ONCE
        self._wakes: set[Call] = set()
        self._window = SettlementWindow(self._write)

    def check_open(self) -> None:
        """Raise Closed if the consumer was closed."""
        if self.closed is not None:
            raise Closed(self.closed)

    def take(self, limit: int) -> list[Delivery]:
        """Return at most ``limit`` deliveries that are available; none when closed.

        Raises the errors of ``settle_soon`` since the last call.
        """
        if self.closed is not None:
            return []
        self._window.check()
        before = self._window.written
        found = self._acquire(limit)
        if not found:
            self._window.flush()
        if not found and self._window.written != before:
            # By writing settlements, this or the window's thread may have made events available:
            # nacked and released ones, and those that waited for an earlier one of their key.
            self._window.check()
            found = self._acquire(limit)
        return found

    def _acquire(self, limit: int) -> list[Delivery]:
        return self._queues.acquire(
            *self._place, self.id, max_events=limit, noted=self._after_crash
        )

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries in one write.

        The result has the errors of those whose locks have expired, by their place in
        ``settlements``.
        """
        self.check_open()
        self._window.flush()
        return self._write(settlements)

    def settle_soon(self, settlement: Settlement) -> Durable:
        """Settle a delivery in the background; ``take`` and ``check_settled`` raise its error.

        The caller must wait for the write that this returns before it settles more, so that not too
        many wait for the disk.
        """
        self.check_open()
        return self._window.add(settlement)

    def check_settled(self) -> None:
        """Raise the errors of ``settle_soon`` that were not raised yet."""
        self._window.check()

    def _write(self, settlements: Sequence[Settlement]) -> Settled:
        settled = self._queues.settle(*self._place, self.id, settlements)
        self._wait_for(settled.durable)
        return settled

    def ack_many(self, deliveries: Iterable[object]) -> Settled:
        """Ack deliveries in one write; the result has errors of expired locks, as ``settle``'s.

        Raises InvalidSetting, with nothing acked, if one belongs to another consumer.
        """
        held = [_held(each) for each in deliveries]
        for each in held:
            if each.consumer is not self:
                raise InvalidSetting(
                    f"{each.given.event.topic}[{each.given.event.partition}]"
                    f"@{each.given.event.offset} was delivered to {each.consumer.id!r}, not to "
                    f"{self.id!r}, and only the queue object that gave a delivery can ack "
                    "it; none of these deliveries was acked"
                )
        settled = self.settle([each.settlement(Outcome.ACK) for each in held])
        for place, each in enumerate(held):
            each.is_settled = each.is_settled or place not in settled.refused
        return settled

    def renew(self, place: Settlement) -> None:
        """Extend the lock of a delivery; raises StaleDelivery if it has expired."""
        self.check_open()
        self._window.flush()
        refused = self._queues.renew(*self._place, self.id, [place])
        for error in refused.values():
            raise error

    def watch(self, wake: Call) -> Call:
        """Make the broker call ``wake`` when ``take`` may return something, or after closing.

        Returns a function that cancels this.
        """
        unwatch = self._queues.watch(*self._place, wake)
        self._wakes.add(wake)

        def take_back() -> None:
            self._wakes.discard(wake)
            unwatch()

        return take_back

    def wait_s(self, left_s: float | None) -> float | None:
        """Return how many seconds to wait: until a lock or delay expires, at most ``left_s``.

        None means: until ``watch`` calls.
        """
        due_ms = self._queues.wait_ms(*self._place)
        due_s = None if due_ms is None else due_ms / 1000
        return min((each for each in (left_s, due_s) if each is not None), default=None)

    def leave(self) -> Durable:
        """Close and release unsettled deliveries; the result waits for all settlements."""
        if self.closed is None:
            self.forget("the queue has been closed; open it again")
            self._window.close()
            # If the queue was deleted in the meantime, nothing is left to release.
            with suppress(UnknownTopic, UnknownQueue):
                durable = self._queues.leave(*self._place, self.id)
                self._wait_for(durable)
        return self._last

    def _wait_for(self, durable: Durable) -> None:
        """Let the result of ``leave`` wait for this append, too, unless it wrote nothing."""
        self._last = self._last if durable is AT_ONCE else durable

    def forget(self, reason: str) -> None:
        """Close without releasing deliveries; ``reason`` is the error message of later calls."""
        self.closed = reason
        for wake in list(self._wakes):
            wake()


class HeldDelivery:
    """A delivery, the consumer that it was delivered to, and whether it was settled."""

    __slots__ = ("consumer", "given", "is_settled")

    def __init__(self, consumer: QueueConsumer, given: Delivery) -> None:
        self.consumer = consumer
        self.given = given
        self.is_settled = False

    def settlement(self, outcome: Outcome, delay_ms: int = 0, reason: str = "") -> Settlement:
        """Return a settlement that is valid for this delivery only, not for a redelivery."""
        event = self.given.event
        place = (event.partition, event.offset)
        return Settlement(*place, outcome, self.given.lease, delay_ms, reason)

    def settle(self, outcome: Outcome, delay_s: float = 0.0, reason: str = "") -> Durable:
        """Settle this delivery; raises StaleDelivery if its lock has expired."""
        delay_ms = milliseconds(delay_s, "delay_s")
        settled = self.consumer.settle([self.settlement(outcome, delay_ms, reason)])
        for error in settled.refused.values():
            raise error
        self.is_settled = True
        return settled.durable

    def settle_soon(self, outcome: Outcome, delay_s: float = 0.0, reason: str = "") -> Durable:
        """Settle this delivery in the background; raises StaleDelivery if it was settled before.

        The caller must wait for the write that this returns before it settles more.
        """
        if self.is_settled:
            return self.settle(outcome, delay_s, reason)
        delay_ms = milliseconds(delay_s, "delay_s")
        room = self.consumer.settle_soon(self.settlement(outcome, delay_ms, reason))
        self.is_settled = True
        return room

    def leave(self, error: BaseException | None) -> None:
        """Settle at the end of the block: ack, nack after an Exception, release if interrupted."""
        if self.is_settled:
            return
        if error is None:
            self.settle(Outcome.ACK)
            return
        # If the lock has expired, the block's own error is the one to raise.
        with suppress(StaleDelivery, Closed):
            if isinstance(error, Exception):
                # An exception whose text cannot be formatted must not prevent the nack.
                told = TracebackException(type(error), error, None, limit=0, lookup_lines=False)
                self.settle(Outcome.NACK, reason=f"{type(error).__name__}: {told}")
            else:
                self.settle(Outcome.RELEASE)

    def renew(self) -> None:
        """Extend the lock of the delivery; raises StaleDelivery if it has expired."""
        self.consumer.renew(self.settlement(Outcome.RENEW))


class DeliveredEvent:
    """Base class of deliveries, with the members that need not wait."""

    __slots__ = ("_held",)

    def __init__(self, held: HeldDelivery) -> None:
        self._held = held

    @property
    def event(self) -> Event:
        """The delivered event."""
        return self._held.given.event

    @property
    def count(self) -> int:
        """The number of deliveries of this event, including this one."""
        return self._held.given.count

    def renew(self) -> None:
        """Extend the lock to ``lock_s`` seconds from now."""
        self._held.renew()


def _held(delivery: object) -> HeldDelivery:
    held = getattr(delivery, "_held", None)
    if not isinstance(held, HeldDelivery):
        raise InvalidSetting(
            f"only deliveries can be acked, not a {type(delivery).__name__}: give what poll, "
            "poll_many or the loop gave; nothing was acked"
        )
    return held
