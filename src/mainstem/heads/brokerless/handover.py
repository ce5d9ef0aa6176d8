"""Sends the events of a queue to a socket whose peers do not acknowledge them.

How this works: an event is acknowledged when the socket has taken it; nothing tells whether a peer
has processed it. Events that the socket does not take go back to the queue, and no more are
acquired until the socket is writable. A socket without peers takes nothing.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from mainstem.broker.door import Delivery, Outcome
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.brokerless.metrics import CommonMetrics
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.queue_consumer import QueueConsumer, settlement

_logger = logging.getLogger("mainstem.heads")


class Intake(Protocol):
    """A socket that takes messages for its peers."""

    @property
    def is_writable(self) -> bool:
        """Whether the socket would take a message now."""

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call ``call`` once when the socket would take a message."""


class Handover:
    """The consumer of a queue that sends its events to a socket."""

    def __init__(
        self,
        context: HeadContext,
        queue: tuple[str, str],
        owner: str,
        intake: Intake,
        send: Callable[[Event], bool],
    ) -> None:
        """``owner``: the name under which events are acquired and settled.

        ``send`` sends an event; it returns False if no peer has room. Raises UnknownTopic,
        UnknownQueue.
        """
        context.broker.queues.show(*queue)
        self.queue = queue
        self.delivered = 0
        self._context, self._owner, self._intake, self._take = context, owner, intake, send
        self._is_full = False
        self._is_closed = False
        self._consumer: QueueConsumer | None = None
        # Not before there is a peer, or events would be acquired only to be released.
        intake.when_writable(self._begin)

    @property
    def is_full(self) -> bool:
        """Whether the socket takes no events now."""
        return self._is_full

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` once when the socket takes events again."""

        def again() -> None:
            self._is_full = False
            call()

        self._intake.when_writable(again)

    def close(self) -> None:
        """Stop sending, and return unsettled events to the queue."""
        self._is_closed = True
        if self._consumer is not None:
            self._consumer.close()
            self._consumer.leave()

    def samples(self, metrics: CommonMetrics) -> Iterator[tuple[Metric, Sample]]:
        """Yield the number of events that the socket has taken."""
        yield metrics.pushed, (self.queue, self.delivered)

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
            if not self._take(each.event):
                break
            taken += 1
        self.delivered += taken
        said = [settlement(each) for each in deliveries[:taken]]
        said += [settlement(each, Outcome.RELEASE) for each in deliveries[taken:]]
        self._is_full = taken < len(deliveries) or not self._intake.is_writable
        # Appended soon, so that few events are sent again after a crash.
        self._context.settlements.add(
            self._context.broker, self.queue, self._owner, said, self._gone, soon=True
        )

    def _gone(self, error: MainstemError) -> None:
        _logger.error("queue %s/%s is not pushed any more: %s", *self.queue, error)
