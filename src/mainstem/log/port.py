"""The port that every log implements: on disk, and in memory.

A log holds partitions; a partition holds record batches (Kafka v2 bytes, see ``core.batch``) and
knows nothing of consumers or protocols. All methods are synchronous and thread-safe. ``append``
returns at once with the assigned offsets; ``durable`` tells when the batches are as durable as
their topic's policy says. Readers see a batch only then.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mainstem.core.errors import DamagedLog, MainstemError
from mainstem.core.topic_settings import TopicSettings

WritableBatch = bytearray | memoryview


class PartitionId(NamedTuple):
    """A partition: its topic's id (32 hex digits, never reused) and its number."""

    topic_id: str
    number: int


class Bounds(NamedTuple):
    """The offsets of a partition: events with ``start <= offset < tail`` are readable."""

    start: int
    tail: int
    """The first offset that is not visible yet (Kafka's high watermark)."""
    end: int
    """The next offset to assign (Kafka's log end offset); above ``tail`` while commits pend."""
    size_bytes: int
    epoch: int
    """The leader epoch; grows whenever the log may have been truncated."""


class TimedOffset(NamedTuple):
    """The result of a search by time: an event's offset and timestamp."""

    offset: int
    timestamp_ms: int


class Durable(Protocol):
    """A future for the durability of an append; shared by all appends of one group commit."""

    @property
    def done(self) -> bool:
        """Whether the outcome is known: durable, or failed."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until durable, at most ``timeout`` seconds; return False on time-out.

        Raises StorageFailed if the commit failed.
        """

    def then(self, call: Callable[[MainstemError | None], None]) -> None:
        """Call ``call`` when done, from any thread, with None or the error of the commit."""

    def hand_over(self) -> None:
        """Write the append to the page cache: it then survives kill -9, but not yet a power cut."""


class Appended(msgspec.Struct, frozen=True):
    """The result of ``append``: the base offset of each batch, in order."""

    offsets: list[int]
    durable: Durable
    starts: list[int]
    """For each batch the log start offset of its partition."""


class File(Protocol):
    """An open file, for sendfile; closed when no longer referenced."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def pread(self, length: int, position: int) -> bytes:
        """Read up to ``length`` bytes at ``position``."""


class Slice(msgspec.Struct, frozen=True):
    """Whole record batches, either in memory (``file`` is None) or as a range of a file."""

    length: int
    data: bytes | memoryview = b""
    file: File | None = None
    position: int = 0

    def fileno(self) -> int:
        """Return the file's descriptor, -1 if the batches are in memory."""
        return -1 if self.file is None else self.file.fileno()

    def tobytes(self) -> bytes | memoryview:
        """Return the batches, reading them if they are in a file."""
        if self.file is None:
            return self.data
        try:
            return self.file.pread(self.length, self.position)
        except OSError as error:
            raise DamagedLog(
                f"a segment cannot be read at byte {self.position} ({error}); check the disk, then "
                "run mainstem verify"
            ) from error


Batches = Sequence[tuple[PartitionId, WritableBatch]]
"""Record batches, each with the partition it goes to.

One batch may go to several partitions: ``append`` writes the offsets of each into it, one by one.
"""


class Readable(Protocol):
    """What a reader at the tail of partitions needs; the methods are those of ``Log``."""

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches, from the one that contains ``offset`` (or the next one) on."""

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the current offsets and size of a partition."""

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``wake`` once, from any thread, when the partition's tail has passed ``offset``."""


class Log(Protocol):
    """A log: partitions of record batches. The broker needs only these nine methods."""

    @property
    def written(self) -> Readable:
        """A view of the log that shows batches once they are written, before they are durable.

        A crash may take them back, and their offsets are then given to other events. So only a
        reader that drops its state beyond the end of a partition when the log is opened may use
        it. Batches of an atomic append, and those after them, are seen only when they are durable.
        """

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create a partition, or change its settings; ``topic``: the name to use in messages."""

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions and their events; partitions that do not exist are ignored."""

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append checked batches, all or nothing, and make them visible together.

        Base offset and leader epoch are written into the caller's buffers. If all batches are for
        ``disk`` topics, they are durable on return, unless an earlier append still waits for its
        commit. Raises StorageFull with nothing changed.

        ``together`` false: the batches are independent. Those of one partition must be consecutive,
        and a crash may keep only the first of them. At least one is appended; if there are fewer
        offsets than batches, the rest was not appended, and the caller appends it again.

        ``lazy``: no caller waits for durability. A single batch for an ``fsync`` topic survives
        kill -9 on return, and a power cut a little later: its sync waits for others to share it.
        """

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches, from the one that contains ``offset`` (or the next one) on.

        Returns at least one batch if there is one before the tail, even if it is larger than
        ``max_bytes``; an empty slice at the tail. Raises OffsetOutOfRange outside ``start..tail``.
        """

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the current offsets and size of a partition."""

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Return offset and time of the first readable event at or after a time, or None."""

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``wake`` once, from any thread, when the partition's tail has passed ``offset``.

        The call comes at once if the tail is past already. It also comes when the partition is
        deleted or the log closed. Returns a function that cancels the watch.
        """

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Delete events before ``start``, or at and after ``end`` (then a new epoch begins).

        Returns the new bounds.
        """

    def thin(self, partition: PartitionId, before: int, but: Collection[int]) -> None:
        """Allow the log to drop the events before an offset, except those at some offsets.

        Whether and when they are dropped depends on how much space that frees; offsets and bounds
        do not change. The newest visible event stays, so that a read before the tail always finds
        one. Each call replaces the previous one: ``before`` 0 keeps all remaining events.
        Truncation does the same.
        """
