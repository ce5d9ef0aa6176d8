"""Publishes the new events of a topic through a socket that does not wait for its subscribers.

How this works: the topic is read at its tail by a ``TopicConsumer``. If the socket has no room for
an event, because a subscriber is slow, publishing is retried until the topic's policy says that the
event is published without that subscriber: with ``overload=backpressure``, when the event is
``max_backlog`` events behind the tail; otherwise at once. Nothing is lost in the log: a subscriber
can request the events that it missed.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload
from mainstem.heads.context import HeadContext
from mainstem.heads.topic_consumer import TopicConsumer

RETRY_MS = 2


class Outlet(Protocol):
    """A socket that publishes a topic's events."""

    def publish(self, event: Event, after: int) -> bool:
        """Publish an event; False if a subscriber to it has no room, so that nobody gets it.

        ``after``: no event of the partition is between this offset and the event's.
        """

    def publish_anyway(self, event: Event, after: int) -> None:
        """Publish an event to the subscribers that have room, and drop it for the others."""


class LiveTail:
    """Publishes the new events of one topic."""

    def __init__(
        self,
        context: HeadContext,
        topic: str,
        outlet: Outlet,
        gone: Callable[[MainstemError], None],
    ) -> None:
        """``gone``: called if the topic is deleted, or cannot be read."""
        self._context, self._outlet, self._topic = context, outlet, topic
        self._pending = deque[Event]()
        """Events that the socket has not taken yet."""
        self._after: dict[int, int] = {}
        self._wake: Callable[[], None] | None = None
        self._is_closed = False
        self.published = self.dropped = 0
        """Events that were published; ``dropped``: those that at least one subscriber had no room
        for.
        """
        self._consumer = TopicConsumer(context, context.broker, self, topic, self._send, gone)

    @property
    def missed(self) -> int:
        """How many offsets retention deleted before their events were published."""
        return self._consumer.missed

    @property
    def is_full(self) -> bool:
        """Whether events wait until the socket has room."""
        return bool(self._pending)

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` once when no events wait any more."""
        self._wake = call

    def look(self) -> None:
        """Also publish partitions that were added to the topic."""
        self._consumer.look()

    def close(self) -> None:
        """Stop publishing."""
        self._is_closed = True
        self._consumer.close()
        self._pending.clear()

    def _send(self, events: list[Event]) -> None:
        self._pending.extend(events)
        self._flush()

    def _flush(self) -> None:
        pending, after, publish = self._pending, self._after, self._outlet.publish
        while pending:
            event = pending[0]
            before = after.get(event.partition, event.offset)
            if not publish(event, before):
                if not self._is_closed and self._may_wait(event):
                    self._context.after(RETRY_MS, self._retry)
                    return
                self.dropped += 1
                self._outlet.publish_anyway(event, before)
            after[event.partition] = event.offset + 1
            self.published += 1
            pending.popleft()

    def _retry(self) -> None:
        if self._is_closed:
            return
        self._flush()
        if not self._pending and self._wake is not None:
            wake, self._wake = self._wake, None
            wake()

    def _may_wait(self, event: Event) -> bool:
        try:
            settings = self._context.broker.topic(self._topic).settings
            bounds = self._context.broker.bounds(self._topic, event.partition)
        except MainstemError:
            return False
        if settings.overload is not Overload.BACKPRESSURE or settings.max_backlog is None:
            return False
        return bounds.tail - event.offset <= settings.max_backlog
