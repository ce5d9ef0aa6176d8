"""Following: the events of a partition from an offset on; reading never blocks."""

from collections.abc import Iterator
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.broker.reading.feed import MAX_BYTES, MAX_EVENTS
from mainstem.core.event import Event
from mainstem.log.port import Bounds, Slice, TimedOffset

__all__ = ["Bounds", "Feed", "Following", "Slice", "TimedOffset"]


class Feed(Protocol):
    """The events of one partition in order; for one thread at a time, never blocks."""

    @property
    def offset(self) -> int:
        """The next one to be taken; everything before was taken, or was not to be seen."""

    def take(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> list[Event]:
        """Return the next events, none if there are none now; the first one whatever its size.

        Bytes are those of keys and values. Raises OffsetOutOfRange if the log no longer has what
        stands at ``offset``: retention was faster, or its end was taken back. The feed stays where
        it is until ``seek`` moves it: to ``error.start`` to go on with the first event kept. Raises
        UnknownTopic once the topic is deleted, also if another one has its name now.
        """

    def chunk(self, max_bytes: int = MAX_BYTES, end: int | None = None) -> Iterator[Event] | None:
        """Return the next events as an iterator that decodes them, None if there are none now.

        ``offset`` moves with every record batch that is through, and stops at ``end``.
        """

    def seek(self, offset: int) -> None:
        """Go on from another offset."""

    def watch(self, wake: Callback) -> Callback:
        """Call ``wake`` once there may be more to take, or the topic is deleted.

        At once if that is so already. It is called from any thread, and must not block. Returns a
        function that takes the watch back.
        """


class Following(Protocol):
    """Reads partitions; at the tail there is nothing yet, and a watch tells when to come again."""

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> Slice:
        """Return whole record batches from the one that holds ``offset`` on."""

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return what a partition holds now."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> TimedOffset | None:
        """Return the first visible event at or after a time, None if there is none."""

    def follow(self, topic: str, partition: int, offset: int, *, committed: bool = True) -> Feed:
        """Return a feed of a partition's events from an offset on, which never waits.

        ``committed``: only events of transactions that have committed, and those outside of any.
        """

    def time_at(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the time of the first event at or after an offset, None if there is none yet."""

    def watch(self, topic: str, partition: int, offset: int, wake: Callback) -> Callback:
        """Call ``wake`` once the tail is past ``offset``, or the topic is deleted.

        At once if it is already. Returns a function that takes the watch back.
        """

    def trim(self, topic: str, partition: int, before: int) -> Bounds:
        """Delete the events before an offset."""
