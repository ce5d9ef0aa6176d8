"""A queue of a log in this process, with blocking calls."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

from mainstem.broker.door import Delivery as BrokerDelivery
from mainstem.broker.door import Outcome
from mainstem.client.checks import check_limit
from mainstem.client.contexts import Closing, Exits, close_after
from mainstem.client.embedded.queue_consumer import DeliveredEvent, HeldDelivery, QueueConsumer
from mainstem.client.stem import Delivery
from mainstem.core.event import Event


class EmbeddedDelivery(DeliveredEvent, Exits):
    """Implements ``Delivery`` on the broker of this process."""

    __slots__ = ()

    def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the event, which is never delivered again; durable on return if ``wait``."""
        self._settle(Outcome.ACK, wait=wait)

    def nack(self, *, delay_s: float = 0.0, reason: str = "", wait: bool = True) -> None:
        """Report a failure: the event is redelivered after the delay, or becomes a dead letter."""
        self._settle(Outcome.NACK, delay_s, reason, wait=wait)

    def release(self, *, wait: bool = True) -> None:
        """Put the event back into its queue; does not count towards ``max_deliveries``."""
        self._settle(Outcome.RELEASE, wait=wait)

    def reject(self, reason: str = "", *, wait: bool = True) -> None:
        """Move the event to the dead letters at once, without a redelivery."""
        self._settle(Outcome.REJECT, 0.0, reason, wait=wait)

    def __enter__(self) -> Event:
        """Return the delivered event; the end of the block acks or nacks it."""
        return self._held.given.event

    def _leave(self, error: BaseException | None) -> None:
        # This does not wait for the disk, so after a power cut the event may be delivered again.
        self._held.leave(error)

    def _settle(
        self, outcome: Outcome, delay_s: float = 0.0, reason: str = "", *, wait: bool
    ) -> None:
        settle = self._held.settle if wait else self._held.settle_soon
        settle(outcome, delay_s, reason).wait()


class EmbeddedQueue(Closing):
    """Implements ``Queue`` on the log of this process; one consumer for one or more threads."""

    def __init__(self, consumer: QueueConsumer, *, follow: bool) -> None:
        self._consumer = consumer
        self._follow = follow

    @property
    def consumer(self) -> str:
        """The name under which this object is a consumer of the queue."""
        return self._consumer.id

    def __iter__(self) -> Iterator[EmbeddedDelivery]:
        """Return this iterator."""
        return self

    def __next__(self) -> EmbeddedDelivery:
        """Return the next delivery; StopIteration once closed, or at the end without ``follow``."""
        found = self._take(1, None if self._follow else 0.0)
        if not found:
            raise StopIteration
        return found[0]

    def poll(self, timeout: float | None = None) -> EmbeddedDelivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""
        self._consumer.check_open()
        return next(iter(self._take(1, timeout)), None)

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> list[EmbeddedDelivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""
        self._consumer.check_open()
        check_limit(limit)
        return self._take(limit, timeout)

    def ack_many(self, deliveries: Iterable[Delivery]) -> None:
        """Ack deliveries of this queue object in one write; they are durable on return.

        Raises StaleDelivery if the lock of one has expired; the others are still acked. Raises
        InvalidSetting if one belongs to another consumer; then none is acked.
        """
        settled = self._consumer.ack_many(deliveries)
        settled.durable.wait()
        for error in settled.refused.values():
            raise error

    def close(self) -> None:
        """Close; unsettled events are redelivered, and this does not count as a delivery.

        Settlements with ``wait=False`` are durable on return; raises the error of one that failed.
        """
        self._consumer.leave().wait()
        self._consumer.check_settled()

    def _leave(self, error: BaseException | None) -> None:
        close_after(error, self.close)

    def _take(self, limit: int, timeout: float | None) -> list[EmbeddedDelivery]:
        given = self._consumer.take(limit)
        if not given and self._consumer.closed is None and timeout != 0:
            given = self._wait(limit, None if timeout is None else time.monotonic() + timeout)
        return [EmbeddedDelivery(HeldDelivery(self._consumer, each)) for each in given]

    def _wait(self, limit: int, until: float | None) -> list[BrokerDelivery]:
        signals: SimpleQueue[None] = SimpleQueue()
        while True:
            unwatch = self._consumer.watch(lambda: signals.put(None))
            try:
                # Check again, as an event may have arrived before ``watch`` was called.
                given = self._consumer.take(limit)
                left = None if until is None else until - time.monotonic()
                if given or self._consumer.closed is not None or (left is not None and left <= 0):
                    return given
                with suppress(Empty):
                    signals.get(timeout=self._consumer.wait_s(left))
            finally:
                unwatch()
