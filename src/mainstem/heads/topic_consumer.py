"""Consumes a topic on behalf of a peer: sends all its events as they arrive, limited by credit.

How this works: events are sent in portions, round robin over the partitions, and the event loop
runs other work after each portion. When all events are sent, every partition is watched for
appends. A topic consumer buffers no events: it stops while the peer does not read or has no credit
left. Used in the thread of the event loop.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.core.errors import MainstemError, OffsetOutOfRange
from mainstem.core.event import Event
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Room

if TYPE_CHECKING:
    from mainstem.broker.door import Door, Feed

PORTION_EVENTS = 256
PORTION_BYTES = 256 * 1024
"""Maximum number of bytes sent before checking whether the peer reads."""

Call = Callable[[], None]


class TopicConsumer:
    """Sends the events of all partitions of a topic to a peer, each once."""

    def __init__(
        self,
        context: HeadContext,
        door: "Door",
        outbox: Room,
        topic: str,
        send: Callable[[list[Event]], None],
        gone: Callable[[MainstemError], None],
        *,
        credit: int | None = None,
        from_start: bool = False,
        cursor: Callable[[int], int | None] | None = None,
    ) -> None:
        """Begin to send events at the end of the topic, or elsewhere if the arguments say so.

        ``credit``: how many may be sent; None is no limit. ``gone``: called if reading fails.
        ``from_start``: begin with the first events. ``cursor``: returns where to begin in a
        partition; if it returns None, ``from_start`` decides.
        """
        self._context, self._door, self._outbox = context, door, outbox
        self._topic = topic
        self._send, self._gone = send, gone
        self._cursor = cursor
        self.credit = credit
        self.missed = 0
        """How many offsets retention deleted before their events could be sent."""
        self._feeds: list[tuple[int, Feed]] = []
        """A reader of each partition, with its number; the next one to read is first."""
        self._watches: dict[int, Call] = {}
        self._is_due = self._waits_for_room = self._is_closed = False
        self._follow(from_start=from_start)
        self._soon()

    def add_credit(self, count: int) -> None:
        """Allow ``count`` more events to be sent."""
        if self.credit is not None and count > 0:
            self.credit += count
            self._soon()

    def again(self, partition: int, offset: int) -> Event | None:
        """Read an event that was already sent; return None if retention has deleted it since."""
        try:
            found = self._door.follow(self._topic, partition, offset).take(1)
        except OffsetOutOfRange:
            return None
        return found[0] if found and found[0].offset == offset else None

    def look(self) -> None:
        """Also send the events of partitions that were added to the topic, from their start."""
        try:
            self._follow(from_start=True)
        except MainstemError as error:
            self._end(error)
        self._soon()

    def close(self) -> None:
        """Stop sending events."""
        self._is_closed = True
        for end in self._watches.values():
            end()
        self._watches.clear()

    def _follow(self, *, from_start: bool) -> None:
        door = self._door
        for number in range(len(self._feeds), len(door.topic(self._topic).partitions)):
            bounds = door.bounds(self._topic, number)
            first = None if self._cursor is None else self._cursor(number)
            if first is None:
                first = bounds.start if from_start else bounds.tail
            self._feeds.append((number, door.follow(self._topic, number, first)))

    def _soon(self) -> None:
        if not self._is_due and not self._is_closed:
            self._is_due = True
            self._context.on_loop(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if self._is_closed or self._waits_for_room or self.credit == 0:
            return
        try:
            events = self._next()
            if events:
                self._send(events)
            else:
                self._watch()
        except MainstemError as error:
            self._end(error)
            return
        if self.credit is not None:
            self.credit -= len(events)
        if self._outbox.is_full:
            self._waits_for_room = True
            self._outbox.when_room(self._has_room)
        elif events:
            self._soon()

    def _next(self) -> list[Event]:
        limit = PORTION_EVENTS if self.credit is None else min(self.credit, PORTION_EVENTS)
        for _ in self._feeds:
            # Round robin, so that no partition starves.
            self._feeds.append(self._feeds.pop(0))
            if events := self._taken(self._feeds[-1][1], limit):
                return events
        return []

    def _taken(self, feed: "Feed", limit: int) -> list[Event]:
        try:
            return feed.take(limit, PORTION_BYTES)
        except OffsetOutOfRange as error:
            if error.offset < error.start:
                self.missed += error.start - error.offset
                feed.seek(error.start)
            else:
                # The partition was truncated: continue at its new end.
                feed.seek(error.tail)
            return feed.take(limit, PORTION_BYTES)

    def _watch(self) -> None:
        for partition, feed in self._feeds:
            if partition not in self._watches:
                self._watches[partition] = feed.watch(self._waker(partition))

    def _waker(self, partition: int) -> Call:
        def wake() -> None:
            self._watches.pop(partition, None)
            self._soon()

        return lambda: self._context.on_loop(wake)

    def _has_room(self) -> None:
        self._waits_for_room = False
        self._soon()

    def _end(self, error: MainstemError) -> None:
        if not self._is_closed:
            self.close()
            self._gone(error)
