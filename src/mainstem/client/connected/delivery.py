"""One delivery of a queue on a server."""

from contextlib import suppress
from typing import NoReturn, Protocol

from mainstem.client.connected.share_member import Given
from mainstem.client.contexts import Exits
from mainstem.core.errors import Closed, StaleDelivery, Unsupported
from mainstem.core.event import Event
from mainstem.remote.share_consumer import Verdict


class Settles(Protocol):
    """What a delivery needs of its queue object."""

    def settle(self, given: Given, verdict: Verdict, *, wait: bool = True) -> None:
        """Settle a delivery with this verdict; raises StaleDelivery if its lock has expired."""


class ConnectedDelivery(Exits):
    """Implements ``Delivery`` through the Kafka protocol."""

    __slots__ = ("_queue", "given")

    def __init__(self, queue: Settles, given: Given) -> None:
        self._queue = queue
        self.given = given

    @property
    def event(self) -> Event:
        """The delivered event."""
        return self.given.shared.event

    @property
    def count(self) -> int:
        """The number of deliveries of this event, including this one."""
        return self.given.shared.count

    def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the event, which is never delivered again; durable on return if ``wait``."""
        self._queue.settle(self.given, Verdict.ACCEPT, wait=wait)

    def nack(self, *, delay_s: float = 0.0, reason: str = "", wait: bool = True) -> None:
        """Report a failure: the event is redelivered at once, or becomes a dead letter.

        The reason is not stored. Raises Unsupported if a delay is given.
        """
        if delay_s:
            raise Unsupported(
                "over the network a failed event is redelivered at once: nack() without "
                "delay_s, or wait before; only mainstem.open can delay it"
            )
        self._queue.settle(self.given, Verdict.RELEASE, wait=wait)

    def release(self, *, wait: bool = True) -> None:
        """Put the event back into its queue; over the network this counts as a delivery."""
        self._queue.settle(self.given, Verdict.RELEASE, wait=wait)

    def reject(self, reason: str = "", *, wait: bool = True) -> None:
        """Move the event to the dead letters at once; the reason is not stored."""
        self._queue.settle(self.given, Verdict.REJECT, wait=wait)

    def renew(self) -> NoReturn:
        """Raise Unsupported, because locks cannot be renewed over the network."""
        raise Unsupported(
            "over the network the lock of a delivery cannot be renewed: open the queue with a "
            "lock_s that is long enough"
        )

    def __enter__(self) -> Event:
        """Return the delivered event; the end of the block acks or nacks it."""
        return self.given.shared.event

    def _leave(self, error: BaseException | None) -> None:
        self.leave(error)

    def leave(self, error: BaseException | None) -> None:
        """Ack, or nack if ``error`` is given, unless the block has settled the delivery.

        Does not wait for the server; if that refuses, the next call on the queue raises its error.
        """
        if self.given.is_settled:
            return
        if error is None:
            self._queue.settle(self.given, Verdict.ACCEPT, wait=False)
            return
        # If the lock has expired, the block's own error is the one to raise.
        with suppress(StaleDelivery, Closed):
            self._queue.settle(self.given, Verdict.RELEASE, wait=False)

    def is_of(self, queue: Settles) -> bool:
        """Return whether this delivery came from that queue object."""
        return self._queue is queue
