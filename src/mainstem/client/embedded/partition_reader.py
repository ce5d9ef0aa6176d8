"""One partition of a subscription: up to which offset it was read, returned and finished."""

from collections.abc import Callable, Iterator

from mainstem.broker.door import AssignedPartition, Door
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.event import Event


class PartitionReader:
    """Reads one partition for a ``Feed``, whose lock the caller must hold."""

    __slots__ = (
        "_feed",
        "committed",
        "finished",
        "given",
        "limit",
        "missed",
        "partition",
        "share",
        "topic",
        "unwatch",
    )

    def __init__(
        self, broker: Door, topic: str, partition: int, offset: int, limit: int | None
    ) -> None:
        self._feed = broker.follow(topic, partition, offset)
        self.topic = topic
        self.partition = partition
        self.given = self.finished = offset
        """The next offset to return, and the first offset that the consumer has not finished."""
        self.limit = limit
        """The offset to stop at; None to follow the tail."""
        self.committed: int | None = None
        self.share: AssignedPartition | None = None
        self.missed = 0
        self.unwatch: Callable[[], None] | None = None

    @property
    def offset(self) -> int:
        """The next offset to read from the log."""
        return self._feed.offset

    def read(self, max_bytes: int) -> Iterator[Event] | None:
        """Return an iterator that decodes the next events; None if there are none.

        If events were deleted before they were read, it continues at the first one that exists, and
        counts the missed ones.
        """
        try:
            return self._feed.chunk(max_bytes, self.limit)
        except OffsetOutOfRange as error:
            self._jump(error.start, error.tail)
            return self.read(max_bytes)

    def step_back(self) -> None:
        """Go back to the first event not returned, so that a damaged one is not skipped."""
        self._feed.seek(self.given)

    def watch(self, wake: Callable[[], None]) -> None:
        """Make the log call ``wake`` once, when there are new events or the topic is deleted."""
        self.unwatch = self._feed.watch(wake)

    def drop(self) -> None:
        """Stop watching the log."""
        if self.unwatch is not None:
            self.unwatch()
            self.unwatch = None

    def _jump(self, start: int, tail: int) -> None:
        # If it is past the tail, the end of the log was lost: no event was missed.
        place = min(max(self.offset, start), tail)
        self.missed += max(0, place - self.offset)
        self._feed.seek(place)
