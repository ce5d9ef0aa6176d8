"""Reading: the events of a partition from an offset on, without blocking."""

from collections.abc import Iterator
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.broker.reading.feed import MAX_BYTES, MAX_EVENTS
from mainstem.core.event import Event
from mainstem.log.port import Bounds, Slice, TimedOffset

__all__ = ["Bounds", "Feed", "Reading", "Slice", "TimedOffset"]


class Feed(Protocol):
    """The events of one partition in order; for one thread at a time, never blocks."""

    @property
    def offset(self) -> int:
        """The offset of the next event; all visible events before it were returned."""

    def take(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> list[Event]:
        """Return the next events, at least one if there is one; an empty list if there is none.

        ``max_bytes`` limits keys and values, but not the first event. Raises OffsetOutOfRange if
        the log no longer holds ``offset``, because of retention or truncation. Then each call
        raises this until ``seek``; ``error.start`` is the offset of the first event still kept.
        Raises UnknownTopic once the topic is deleted, even if another topic has its name by now.
        """

    def chunk(self, max_bytes: int = MAX_BYTES, end: int | None = None) -> Iterator[Event] | None:
        """Return the next events as an iterator that decodes them, None if there are none now.

        While the caller iterates, ``offset`` advances after every record batch. ``end``: return
        only events before this offset.
        """

    def seek(self, offset: int) -> None:
        """Continue reading at another offset."""

    def watch(self, wake: Callback) -> Callback:
        """Call ``wake`` once, when there may be more events or the topic is deleted.

        If that is already so, the call comes at once. It comes from any thread, and must not block.
        Returns a function to cancel the watch.
        """


class Reading(Protocol):
    """Reads partitions; at the tail reads return nothing, and a watch tells when to retry."""

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> Slice:
        """Return whole record batches, beginning with the one that contains ``offset``.

        The first is returned whatever its size, further ones up to ``max_bytes`` in total.
        """

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the offsets of a partition: log start, tail (high watermark) and log end."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> TimedOffset | None:
        """Return offset and time of the first readable event at or after a time, or None."""

    def follow(self, topic: str, partition: int, offset: int, *, committed: bool = True) -> Feed:
        """Return a feed: it reads a partition's events from an offset on, and never blocks.

        ``committed``: leave out events of aborted and ongoing transactions (read_committed).
        """

    def time_at(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the timestamp of the first event at or after an offset, None if there is none."""

    def watch(self, topic: str, partition: int, offset: int, wake: Callback) -> Callback:
        """Call ``wake`` once, when the tail is past ``offset`` or the topic is deleted.

        If that is already so, the call comes at once. Returns a function to cancel the watch.
        """

    def trim(self, topic: str, partition: int, before: int) -> Bounds:
        """Delete the events before an offset; return the partition's new bounds."""
