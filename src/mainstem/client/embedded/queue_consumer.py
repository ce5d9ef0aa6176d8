"""A consumer's place at a queue, however its deliveries are waited for."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from traceback import TracebackException

from mainstem.broker.door import AT_ONCE, Delivery, Door, Durable, Outcome, Settled, Settlement
from mainstem.client.checks import milliseconds
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
    """Takes and settles deliveries for one consumer; safe to use from several threads."""

    def __init__(
        self, broker: Door, topic: str, name: str, consumer: str, *, after_crash: bool
    ) -> None:
        self._queues = broker.queues
        self._after_crash = after_crash
        self._place = (topic, name)
        self.id = consumer
        self.closed: str | None = None
        """Why nothing can be done here any more; None while it can."""
        self._last: Durable = AT_ONCE
        self._wakes: set[Call] = set()

    def check_open(self) -> None:
        """Raise Closed if it is."""
        if self.closed is not None:
            raise Closed(self.closed)

    def take(self, limit: int) -> list[Delivery]:
        """Return the deliveries that can be had now; none once closed."""
        if self.closed is not None:
            return []
        return self._queues.acquire(
            *self._place, self.id, max_events=limit, noted=self._after_crash
        )

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries, in one write; those that are not out here any more are refused."""
        self.check_open()
        settled = self._queues.settle(*self._place, self.id, settlements)
        self._wait_for(settled.durable)
        return settled

    def ack_many(self, deliveries: Iterable[object]) -> Settled:
        """Ack deliveries in one write; those that are not out any more are refused.

        Raises InvalidSetting, with nothing acked, if one was made for another consumer.
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
        """Keep a delivery for another while; raises StaleDelivery."""
        self.check_open()
        refused = self._queues.renew(*self._place, self.id, [place])
        for error in refused.values():
            raise error

    def watch(self, wake: Call) -> Call:
        """Call ``wake`` when there may be more to take, or this is closed; look once more then."""
        unwatch = self._queues.watch(*self._place, wake)
        self._wakes.add(wake)

        def take_back() -> None:
            self._wakes.discard(wake)
            unwatch()

        return take_back

    def wait_s(self, left_s: float | None) -> float | None:
        """Return how long to wait at most: until time brings something, or no time is left."""
        due_ms = self._queues.wait_ms(*self._place)
        due_s = None if due_ms is None else due_ms / 1000
        return min((each for each in (left_s, due_s) if each is not None), default=None)

    def leave(self) -> Durable:
        """Close: what was not settled is given back at once. Waiting makes all settled durable."""
        if self.closed is None:
            self.forget("the queue has been closed; open it again")
            # If it was deleted meanwhile, nothing is left to give back.
            with suppress(UnknownTopic, UnknownQueue):
                durable = self._queues.leave(*self._place, self.id)
                self._wait_for(durable)
        return self._last

    def _wait_for(self, durable: Durable) -> None:
        """Have whoever closes wait for it; what changed nothing says nothing of what was before."""
        self._last = self._last if durable is AT_ONCE else durable

    def forget(self, reason: str) -> None:
        """Be closed without giving anything back."""
        self.closed = reason
        for wake in list(self._wakes):
            wake()


class HeldDelivery:
    """A delivery as its consumer has it: whose it is, and whether it has been settled."""

    __slots__ = ("consumer", "given", "is_settled")

    def __init__(self, consumer: QueueConsumer, given: Delivery) -> None:
        self.consumer = consumer
        self.given = given
        self.is_settled = False

    def settlement(self, outcome: Outcome, delay_ms: int = 0, reason: str = "") -> Settlement:
        """Return what to say of this delivery, and of no other of the same event."""
        event = self.given.event
        place = (event.partition, event.offset)
        return Settlement(*place, outcome, self.given.lease, delay_ms, reason)

    def settle(self, outcome: Outcome, delay_s: float = 0.0, reason: str = "") -> Durable:
        """Settle it; raises StaleDelivery."""
        delay_ms = milliseconds(delay_s, "delay_s")
        settled = self.consumer.settle([self.settlement(outcome, delay_ms, reason)])
        for error in settled.refused.values():
            raise error
        self.is_settled = True
        return settled.durable

    def leave(self, error: BaseException | None) -> None:
        """Settle it as its block ended, unless it is: with an error, interrupted, or well."""
        if self.is_settled:
            return
        if error is None:
            self.settle(Outcome.ACK)
            return
        # The error says more than that the delivery had gone to another meanwhile.
        with suppress(StaleDelivery, Closed):
            if isinstance(error, Exception):
                # An error that cannot be told must not get in the way of its own delivery.
                told = TracebackException(type(error), error, None, limit=0, lookup_lines=False)
                self.settle(Outcome.NACK, reason=f"{type(error).__name__}: {told}")
            else:
                self.settle(Outcome.RELEASE)

    def renew(self) -> None:
        """Keep it for another while; raises StaleDelivery."""
        self.consumer.renew(self.settlement(Outcome.RENEW))


class DeliveredEvent:
    """What a delivery tells, and can do, without waiting."""

    __slots__ = ("_held",)

    def __init__(self, held: HeldDelivery) -> None:
        self._held = held

    @property
    def event(self) -> Event:
        """What was published."""
        return self._held.given.event

    @property
    def count(self) -> int:
        """How often the event has been delivered, this time included."""
        return self._held.given.count

    def renew(self) -> None:
        """Keep it for another ``lock_s`` seconds from now."""
        self._held.renew()


def _held(delivery: object) -> HeldDelivery:
    held = getattr(delivery, "_held", None)
    if not isinstance(held, HeldDelivery):
        raise InvalidSetting(
            f"only deliveries can be acked, not a {type(delivery).__name__}: give what poll, "
            "poll_many or the loop gave; nothing was acked"
        )
    return held
