"""Hands the events of a queue to a socket whose peers do not acknowledge them.

How this works: an event is acknowledged when the socket has taken it; nobody tells whether a peer
has processed it. What the socket does not take goes back to the queue, which then waits until the
socket is writable. A socket without peers takes nothing.
"""

from collections.abc import Callable
from typing import Protocol

from mainstem.broker.door import Delivery, Outcome
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.context import HeadContext
from mainstem.heads.queue_consumer import QueueConsumer, settlement


class Intake(Protocol):
    """A socket that takes events."""

    def hand_over(self, event: Event) -> bool:
        """Take an event; False if no peer has room for it."""

    @property
    def is_writable(self) -> bool:
        """Whether the socket would take an event now."""

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call ``call`` once the socket would take an event."""


class Handover:
    """The consumer of a queue on behalf of a socket."""

    def __init__(
        self,
        context: HeadContext,
        queue: tuple[str, str],
        owner: str,
        intake: Intake,
        gone: Callable[[MainstemError], None],
    ) -> None:
        """``owner``: who takes the deliveries. ``gone``: called if the queue is deleted."""
        self.queue = queue
        self.delivered = 0
        self._context, self._owner, self._intake, self._gone = context, owner, intake, gone
        self._is_full = False
        self._is_closed = False
        self._consumer: QueueConsumer | None = None
        # Not before there is a peer, or events would be taken only to be given back.
        intake.when_writable(self._begin)

    @property
    def is_full(self) -> bool:
        """Whether the socket takes no events."""
        return self._is_full

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` once the socket takes events."""

        def again() -> None:
            self._is_full = False
            call()

        self._intake.when_writable(again)

    def close(self) -> None:
        """Hand over nothing more."""
        self._is_closed = True
        if self._consumer is not None:
            self._consumer.close()
            self._consumer.leave()

    def _begin(self) -> None:
        if not self._is_closed:
            self._consumer = QueueConsumer(
                self._context,
                self._context.broker,
                self,
                self.queue,
                self._owner,
                self._send,
                self._gone,
            )

    def _send(self, deliveries: list[Delivery]) -> None:
        taken = 0
        for each in deliveries:
            if not self._intake.hand_over(each.event):
                break
            taken += 1
        self.delivered += taken
        said = [settlement(each) for each in deliveries[:taken]]
        said += [settlement(each, Outcome.RELEASE) for each in deliveries[taken:]]
        self._is_full = taken < len(deliveries) or not self._intake.is_writable
        # Soon, so that few are handed over again after a crash.
        self._context.settlements.add(
            self._context.broker, self.queue, self._owner, said, self._gone, soon=True
        )
