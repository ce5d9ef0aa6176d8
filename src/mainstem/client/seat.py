"""A consumer's place at a queue, however its deliveries are waited for."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from mainstem.broker.broker import Broker
from mainstem.broker.subscription import Delivery, Outcome, Settlement
from mainstem.core.errors import Closed, InvalidSetting, UnknownSubscription, UnknownTopic
from mainstem.core.event import Event
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

Call = Callable[[], None]

_MAX_S = 10 * 365 * 86_400


def milliseconds(seconds: float, name: str) -> int:
    """Return a time that a program gave, in milliseconds; refuse what is none."""
    if not 0 <= seconds <= _MAX_S:
        raise InvalidSetting(f"{name} must be 0 to {_MAX_S} seconds, not {seconds}")
    return round(seconds * 1000)


class Seat:
    """Takes and settles deliveries for one consumer; safe to use from several threads."""

    def __init__(
        self, broker: Broker, topic: str, name: str, consumer: str, *, after_crash: bool
    ) -> None:
        self._subscriptions = broker.subscriptions
        self._after_crash = after_crash
        self._place = (topic, name)
        self.consumer = consumer
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
        return self._subscriptions.acquire(
            *self._place, self.consumer, max_events=limit, noted=self._after_crash
        )

    def settle(
        self, given: Delivery, outcome: Outcome, delay_s: float = 0.0, reason: str = ""
    ) -> Durable:
        """Settle a delivery; raises StaleDelivery."""
        self.check_open()
        place = (given.event.partition, given.event.offset)
        delay_ms = milliseconds(delay_s, "delay_s")
        return self._settle([Settlement(*place, outcome, given.lease, delay_ms, reason)])

    def ack_many(self, events: Iterable[Event]) -> Durable:
        """Ack what is out of these events, in one write; then StaleDelivery if one was not."""
        self.check_open()
        return self._settle([Settlement(*event.position) for event in events])

    def settle_after(self, given: Delivery, error: BaseException | None) -> None:
        """Settle a delivery as its block ended: with an error, interrupted, or well."""
        if error is None:
            self.settle(given, Outcome.ACK)
        elif isinstance(error, Exception):
            self.settle(given, Outcome.NACK, reason=f"{type(error).__name__}: {error}")
        else:
            self.settle(given, Outcome.RELEASE)

    def renew(self, given: Delivery) -> None:
        """Keep a delivery for another while; raises StaleDelivery."""
        self.check_open()
        place = Settlement(given.event.partition, given.event.offset, lease=given.lease)
        refused = self._subscriptions.renew(*self._place, self.consumer, [place])
        for error in refused.values():
            raise error

    def watch(self, wake: Call) -> Call:
        """Call ``wake`` when there may be more to take, or this is closed; look once more then."""
        unwatch = self._subscriptions.watch(*self._place, wake)
        self._wakes.add(wake)

        def take_back() -> None:
            self._wakes.discard(wake)
            unwatch()

        return take_back

    def wait_s(self, left_s: float | None) -> float | None:
        """Return how long to wait at most: until time brings something, or no time is left."""
        due_ms = self._subscriptions.wait_ms(*self._place)
        due_s = None if due_ms is None else due_ms / 1000
        return min((each for each in (left_s, due_s) if each is not None), default=None)

    def leave(self) -> Durable:
        """Close: what was not settled is given back at once. Waiting makes all settled durable."""
        if self.closed is None:
            self.forget("the queue has been closed; open it again")
            # If it was deleted meanwhile, nothing is left to give back.
            with suppress(UnknownTopic, UnknownSubscription):
                durable = self._subscriptions.leave(*self._place, self.consumer)
                self._last = self._last if durable is AT_ONCE else durable
        return self._last

    def _settle(self, settlements: Sequence[Settlement]) -> Durable:
        settled = self._subscriptions.settle(*self._place, self.consumer, settlements)
        self._last = settled.durable
        for error in settled.refused.values():
            raise error
        return settled.durable

    def forget(self, reason: str) -> None:
        """Be closed without giving anything back."""
        self.closed = reason
        for wake in list(self._wakes):
            wake()
