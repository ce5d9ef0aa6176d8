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
    """The offsets of a partition: readable are ``start <= offset < tail``."""

    start: int
    tail: int
    """The first offset that is not visible yet (Kafka's high watermark)."""
    end: int
    """The next offset to assign (Kafka's log end offset); above ``tail`` while commits pend."""
    size_bytes: int
    epoch: int
    """The leader epoch; grows whenever the log may have been truncated."""


class TimedOffset(NamedTuple):
    """The answer to a search by time."""

    offset: int
    timestamp_ms: int


class Durable(Protocol):
    """A future shared by all appends of one group commit."""

    @property
    def done(self) -> bool:
        """Whether it is settled: durable, or failed."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until durable; False on time-out; raises StorageFailed if the commit failed."""

    def then(self, call: Callable[[MainstemError | None], None]) -> None:
        """Call ``call`` when settled, from any thread, with the error if there is one."""

    def hand_over(self) -> None:
        """Write to the page cache, so that it survives kill -9, though not yet a power cut."""


class Appended(msgspec.Struct, frozen=True):
    """What ``append`` did: the first offset given to each batch, in order."""

    offsets: list[int]
    durable: Durable
    starts: list[int]
    """The start offset of the partition of each batch."""


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
"""Record batches, each with the partition it goes to."""


class Log(Protocol):
    """Partitions of record batches. Nine methods; everything else is built on them."""

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create the partition, or give it new settings; ``topic`` is its name in messages."""

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions and their events; unknown ones are ignored."""

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append checked batches, all or nothing, and make them visible together.

        Base offset and leader epoch are written into the given buffers. Batches for ``disk``
        topics only are durable on return, unless earlier ones wait. Raises StorageFull with nothing
        changed.

        Not ``together``: the batches are independent. Those of one partition must be consecutive,
        and a crash may keep only the first of them. At least one is appended; if there are fewer
        offsets than batches, the rest was not appended, and the caller appends it again.

        ``lazy``: no caller waits for durability. A single batch for an ``fsync`` topic survives
        kill -9 on return, and a power cut a little later: its sync waits for others to share it.
        """

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches from the one that holds ``offset`` (or the next one kept) on.

        At least one batch if there is one below the tail, even if it is over ``max_bytes``; an
        empty slice at the tail. Raises OffsetOutOfRange outside ``start..tail``.
        """

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the current offsets and size of a partition."""

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Return the first visible event at or after a time, None if there is none."""

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``wake`` once, from any thread, as soon as the tail is past ``offset``.

        At once if it already is. Also called when the partition is deleted or the log closed.
        Returns a function that cancels the watch.
        """

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Delete the events before ``start``, and those from ``end`` on (a new epoch begins)."""

    def thin(self, partition: PartitionId, before: int, but: Collection[int]) -> None:
        """Allow the log to drop the events before an offset, except those at some offsets.

        They are dropped when that frees enough space, soon or later or never; offsets and bounds
        stay. The newest visible event stays, so that a read before the tail always finds one. Each
        call replaces the previous one: ``before`` 0 keeps all remaining events. Truncation does the
        same.
        """
