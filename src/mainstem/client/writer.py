"""Fenced writers, of a log in this process or on a server: the API, the transactional id.

How this works: a writer is a transactional producer, so that Kafka's own mechanism fences it. Its
transactional id consists of topic, partition and the writer's name. Opening a writer bumps the
epoch of that id, and every append is a transaction, which the broker refuses if its epoch is older.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Unpack

from mainstem.client.contexts import Closing
from mainstem.client.values import EventParts, Value, Values, event_of, make_event
from mainstem.core.errors import Closed, InvalidName, InvalidSetting, UnknownPartition
from mainstem.core.event import Event, Position
from mainstem.core.names import check_group

TRANSACTION_TIMEOUT_MS = 60_000
"""Maximum time for which a writer that dies during an append delays read_committed consumers."""


class WriterId(NamedTuple):
    """Identifies a writer: topic, partition, and its name."""

    topic: str
    partition: int
    name: str

    @property
    def transactional_id(self) -> str:
        """The transactional id; two writers never share one, as topic names contain no colon."""
        return f"mainstem-writer:{self.topic}:{self.partition}:{self.name}"


def check_writer(name: str) -> None:
    """Raise InvalidName if a writer's name is invalid."""
    if not isinstance(name, str):
        raise InvalidName("writer", name, "it is not text")
    check_group(name, "writer")


def only_partition(topic: str, count: int, partition: int | None) -> int:
    """Return the partition to append to: ``partition``, or the topic's only one.

    Raises InvalidSetting if it has several and none is given, and UnknownPartition.
    """
    if partition is None:
        if count > 1:
            raise InvalidSetting(
                f"a writer appends in one order, and topic {topic!r} has {count} partitions, which "
                "have none among them: give partition=, or create the topic with partitions=1"
            )
        return 0
    if not 0 <= partition < count:
        raise UnknownPartition(topic, partition, count)
    return partition


class Appender(Protocol):
    """Makes the appends of a writer; one thread at a time may use it."""

    def append(self, events: Sequence[Event]) -> list[Position]:
        """Append events, all or none; return their positions once they are durable."""

    def truncate(self, before: int) -> None:
        """Delete the events before an offset."""

    def close(self) -> None:
        """Abort the open transaction, or close the producer."""


class LogWriter(Closing):
    """Implements ``Writer``; safe to use from several threads."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._lock = threading.Lock()
        self._closed: str | None = None

    def append(self, value: Value, **event: Unpack[EventParts]) -> Position:
        """Append one event; return its position once it is durable; raises WriterFenced."""
        return self._append([make_event(value, **event)])[0]

    def append_many(self, events: Values) -> list[Position]:
        """Append events, all or none; return their positions once they are durable."""
        return self._append([event_of(each) for each in events])

    def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""
        with self._lock:
            self._check_open()
            self._appender.truncate(before)

    def close(self) -> None:
        """Stop appending; another writer with the same name can be opened later."""
        self.close_for("the writer has been closed; open it again")

    def close_for(self, reason: str) -> None:
        """Close the writer; later appends raise ``reason`` as their error message."""
        self.forget(reason)
        with self._lock:
            self._appender.close()

    def forget(self, reason: str) -> None:
        """Close in the child process after a fork, without touching the log or the lock."""
        self._closed = self._closed or reason

    def _append(self, events: Sequence[Event]) -> list[Position]:
        with self._lock:
            self._check_open()
            return self._appender.append(events) if events else []

    def _check_open(self) -> None:
        if self._closed is not None:
            raise Closed(self._closed)
