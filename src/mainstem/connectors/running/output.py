"""Publishes a connector's events together with its progress, in one append each.

How this works: events are collected and appended with the new progress as one entry of the
write-ahead log, so that after a crash both are there or neither. Publishing does not wait for the
disk. But a position is confirmed to the database, which may then delete its log before it, only
when the append that stored it is durable.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from mainstem.broker.door import Durable, HeldPublish, TopicEvents
from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import Position
from mainstem.connectors.running.progress import PROGRESS, SCHEMA, Progress
from mainstem.connectors.running.target import Changes, Target
from mainstem.core.errors import MainstemError, TopicExists, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability, TopicSettings

_MAX_UNDURABLE = 64
"""How many appends may wait for the disk at once."""
_AGAIN_S = 1.0
_EVENT_BYTES = 100


class Stopped(Exception):
    """Raised in the connector's thread when it was told to stop."""


class Output:
    """Collects and publishes the events of one connector."""

    def __init__(
        self, target: Target, name: str, new_topic: TopicSettings, stop: threading.Event
    ) -> None:
        self._target = target
        self._name = name
        self._new_topic = new_topic
        self._stop = stop
        self._entries: list[TopicEvents] = []
        self._open: dict[str, list[Event]] = {}
        self._schemas: dict[str, bytes] = {}
        self._undurable: deque[tuple[Durable, Position | None]] = deque()
        self._durable: Position | None = None
        self._known: set[str] = set()
        self.bytes = 0
        """Estimated size of the events that are not published yet."""
        self.published = 0
        """Number of events that were published."""
        self.blocked: str = ""
        """Why publishing waits; empty if it does not."""

    def add(self, topic: str, events: Iterable[Event]) -> None:
        """Collect events for a topic, in order; creates the topic if needed."""
        found = self._open.get(topic)
        if found is None:
            self._make(topic)
            found = self._open[topic] = []
        for event in events:
            found.append(event)
            self.bytes += len(event.value or b"") + len(event.key or b"") + _EVENT_BYTES

    def add_to_all_partitions(self, topic: str, event: Event) -> None:
        """Collect an event for each partition of a topic, after all events added before."""
        self._make(topic)
        self._close_entries()
        for partition in range(self._target.topic(topic).partitions):
            self._entries.append(TopicEvents(topic, [event], partition))
        self.bytes += len(event.value or b"") + _EVENT_BYTES

    def was_written(self, topic: str) -> bool:
        """Return whether a topic exists and has, or once had, events."""
        try:
            return self._target.topic(topic).was_written
        except UnknownTopic:
            return False

    def set_schema(self, table: str, schema: bytes) -> None:
        """Store the schema that was last published for a table, with the next flush."""
        self._schemas[table] = schema

    def pending_schema(self, table: str) -> bytes | None:
        """Return a table's schema that the next flush will store; None if there is none."""
        return self._schemas.get(table)

    def flush(self, progress: Progress, more: dict[tuple[str, str], bytes | None]) -> None:
        """Append the collected events, the progress, and ``more`` definitions.

        Waits while a topic is full or the broker overloaded; raises Stopped if told to stop
        meanwhile.
        """
        self._close_entries()
        entries = self._entries
        changes: dict[tuple[str, str], bytes | None] = {
            (SCHEMA, f"{self._name}/{table}"): value for table, value in self._schemas.items()
        }
        changes[PROGRESS, self._name] = msgspec.json.encode(progress)
        durable = self._publish(entries, changes | more)
        self.published += sum(len(each.events) for each in entries)
        self._entries, self._schemas, self.bytes = [], {}, 0
        self._undurable.append((durable, progress.position))
        if len(self._undurable) > _MAX_UNDURABLE:
            self._undurable[0][0].wait()

    def confirmed(self) -> Position | None:
        """Return the last position whose append is durable; None before the first.

        Raises the error of an append that failed.
        """
        while self._undurable and self._undurable[0][0].done:
            durable, position = self._undurable.popleft()
            durable.wait()
            self._durable = position or self._durable
        return self._durable

    def wait(self) -> None:
        """Wait until everything that was flushed is durable."""
        for durable, _ in self._undurable:
            durable.wait()

    def _close_entries(self) -> None:
        self._entries += [TopicEvents(topic, events) for topic, events in self._open.items()]
        self._open = {}

    def _publish(self, entries: list[TopicEvents], changes: Changes) -> Durable:
        held: HeldPublish | None = None
        while True:
            try:
                answer = self._target.publish(entries, changes, held)
            except UnknownTopic as error:
                # Somebody has deleted it.
                self._known.discard(error.topic)
                self._make(error.topic)
                held = None
                continue
            except MainstemError as error:
                if not error.retriable:
                    raise
                held = None
                self._wait(self._stop.wait, _AGAIN_S, str(error))
                continue
            if isinstance(answer, HeldPublish):
                held = answer
                self._wait(held.room.wait, 0.2, "a topic with backpressure is full")
                continue
            self.blocked = ""
            return answer

    def _wait(self, wait: Callable[[float], object], seconds: float, why: str) -> None:
        self.blocked = why
        wait(seconds)
        if self._stop.is_set():
            raise Stopped

    def _make(self, topic: str) -> None:
        """Create a topic unless it exists; raises SourceRefused if it is not ``fsync``."""
        if topic in self._known:
            return
        with suppress(TopicExists):
            self._target.create_topic(topic, self._new_topic)
        if self._target.topic(topic).durability is not Durability.FSYNC:
            raise SourceRefused(
                f"topic {topic} does not survive a power cut, but the connector's position would, "
                f"so changes could be lost: mainstem topic alter {topic} --durability fsync"
            )
        self._known.add(topic)
