"""A queue on the log of this process: deliveries that wait in the thread of their consumer."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from mainstem.broker import subscription as broker_side
from mainstem.broker.broker import Broker
from mainstem.broker.subscription import Outcome, Settlement
from mainstem.core.errors import Closed, StaleDelivery, UnknownSubscription, UnknownTopic
from mainstem.core.event import Event
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable


class EmbeddedDelivery:
    """Implements ``Delivery`` on the broker of this process."""

    __slots__ = ("_given", "_queue", "_settled")

    def __init__(self, queue: "EmbeddedQueue", given: broker_side.Delivery) -> None:
        self._queue = queue
        self._given = given
        self._settled = False

    @property
    def event(self) -> Event:
        """What was published."""
        return self._given.event

    @property
    def count(self) -> int:
        """How often the event has been delivered, this time included."""
        return self._given.count

    def ack(self) -> None:
        """Say that it is done: it never comes again; durable on return."""
        self._settle(Outcome.ACK).wait()

    def nack(self, *, delay_s: float = 0.0, reason: str = "") -> None:
        """Say that it failed: it comes again, perhaps after a delay, or becomes a dead letter."""
        self._settle(Outcome.NACK, delay_s, reason).wait()

    def release(self) -> None:
        """Give it back untried: this delivery does not count."""
        self._settle(Outcome.RELEASE).wait()

    def reject(self, reason: str = "") -> None:
        """Say that it will never work: a dead letter at once."""
        self._settle(Outcome.REJECT, 0.0, reason).wait()

    def renew(self) -> None:
        """Keep it for another ``lock_s`` seconds from now."""
        self._queue.renew(self._settlement(Outcome.ACK))

    def __enter__(self) -> Event:
        """Return the event."""
        return self._given.event

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ack, or nack if there was an error, unless it was settled inside.

        This does not wait for the disk: at a power cut within milliseconds it comes again.
        """
        if self._settled:
            return
        if error is None:
            self._settle(Outcome.ACK)
            return
        # The error says more than that the delivery had gone to another meanwhile.
        with suppress(StaleDelivery, Closed):
            if isinstance(error, Exception):
                self._settle(Outcome.NACK, 0.0, f"{type(error).__name__}: {error}")
            else:
                self._settle(Outcome.RELEASE)

    def _settle(self, outcome: Outcome, delay_s: float = 0.0, reason: str = "") -> Durable:
        durable = self._queue.settle([self._settlement(outcome, delay_s, reason)])
        self._settled = True
        return durable

    def _settlement(self, outcome: Outcome, delay_s: float = 0.0, reason: str = "") -> Settlement:
        event = self._given.event
        delay_ms = round(delay_s * 1000)
        lease = self._given.lease
        return Settlement(event.partition, event.offset, outcome, lease, delay_ms, reason)


class EmbeddedQueue:
    """Implements ``Queue`` on the log of this process; one consumer, in one thread or several."""

    def __init__(
        self, broker: Broker, topic: str, name: str, consumer: str, *, follow: bool
    ) -> None:
        self._subscriptions = broker.subscriptions
        self.topic = topic
        self.name = name
        self.consumer = consumer
        """How this consumer is called among those of the queue."""
        self._follow = follow
        self._place = (topic, name)
        self._last: Durable = AT_ONCE
        self._closed: str | None = None
        self._waiting: set[SimpleQueue[None]] = set()

    def __iter__(self) -> Iterator[EmbeddedDelivery]:
        """Iterate."""
        return self

    def __next__(self) -> EmbeddedDelivery:
        """Return the next delivery; StopIteration once closed, or if it does not follow."""
        found = [] if self._closed else self._take(1, None if self._follow else 0.0)
        if not found:
            raise StopIteration
        return found[0]

    def poll(self, timeout: float | None = None) -> EmbeddedDelivery | None:
        """Return the next delivery, or None if none came in ``timeout`` seconds."""
        self._check_open()
        return next(iter(self._take(1, timeout)), None)

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> list[EmbeddedDelivery]:
        """Return the deliveries that can be had, at most ``limit``, waiting for the first."""
        self._check_open()
        return self._take(max(1, limit), timeout)

    def close(self) -> None:
        """Give back what was not settled; it comes again at once, and this does not count."""
        if self._closed is not None:
            return
        self.forget("the queue has been closed; open it again")
        # Deleted meanwhile: nothing is left to give back.
        with suppress(UnknownTopic, UnknownSubscription):
            self._subscriptions.leave(*self._place, self.consumer).wait()
        self._last.wait()

    def forget(self, reason: str) -> None:
        """Be closed without giving anything back."""
        self._closed = reason
        for signals in list(self._waiting):
            signals.put(None)

    def settle(self, settlements: Sequence[Settlement]) -> Durable:
        """Settle deliveries of this consumer; raises StaleDelivery."""
        self._check_open()
        settled = self._subscriptions.settle(*self._place, self.consumer, settlements)
        for error in settled.refused.values():
            raise error
        self._last = settled.durable
        return settled.durable

    def renew(self, settlement: Settlement) -> None:
        """Keep a delivery of this consumer; raises StaleDelivery."""
        self._check_open()
        refused = self._subscriptions.renew(*self._place, self.consumer, [settlement])
        for error in refused.values():
            raise error

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise Closed(self._closed)

    def _take(self, limit: int, timeout: float | None) -> list[EmbeddedDelivery]:
        until = None if timeout is None else time.monotonic() + timeout
        signals: SimpleQueue[None] = SimpleQueue()
        self._waiting.add(signals)
        try:
            while True:
                found = self._acquire(limit)
                left = None if until is None else until - time.monotonic()
                if found or self._closed is not None or (left is not None and left <= 0):
                    return found
                unwatch = self._subscriptions.watch(*self._place, lambda: signals.put(None))
                try:
                    # Something may have come before the watch was there.
                    found = self._acquire(limit)
                    if found or self._closed is not None:
                        return found
                    self._wait(signals, left)
                finally:
                    unwatch()
        finally:
            self._waiting.discard(signals)

    def _acquire(self, limit: int) -> list[EmbeddedDelivery]:
        if self._closed is not None:
            return []
        given = self._subscriptions.acquire(*self._place, self.consumer, max_events=limit)
        return [EmbeddedDelivery(self, each) for each in given]

    def _wait(self, signals: "SimpleQueue[None]", left: float | None) -> None:
        """Wait for a signal, or until time brings something; and forget all signals so far."""
        due_ms = self._subscriptions.wait_ms(*self._place)
        waits = [
            each for each in (left, None if due_ms is None else due_ms / 1000) if each is not None
        ]
        with suppress(Empty):
            signals.get(timeout=min(waits) if waits else None)
            while True:
                signals.get_nowait()
