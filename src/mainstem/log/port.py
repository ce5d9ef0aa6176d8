"""The port every log implements: on disk, in memory, and one day by a Kafka cluster.

A log holds partitions; a partition holds record batches (Kafka v2 bytes, see ``core.batch``) and
knows nothing of consumers or protocols. All methods are synchronous and thread-safe. ``append``
returns at once: the offsets are assigned and ordered, and ``durable`` tells when the batches are
as durable as their topic's policy says. Readers see a batch only then.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mainstem.core.errors import DamagedLog, MainstemError
from mainstem.core.topic_settings import TopicSettings

WritableBatch = bytearray | memoryview


class PartitionId(NamedTuple):
    """A partition by its topic's id (32 hex digits, never used again) and its number."""

    topic_id: str
    number: int


class Bounds(NamedTuple):
    """What a partition holds: readable offsets are ``start <= offset < tail``."""

    start: int
    tail: int
    """The first offset that readers cannot see yet."""
    end: int
    """The offset that the next event gets; more than ``tail`` while appends await durability."""
    size_bytes: int
    epoch: int
    """The leader epoch; grows whenever the end of the log may have been taken back."""


class TimedOffset(NamedTuple):
    """The answer to a search by time."""

    offset: int
    timestamp_ms: int


class Durable(Protocol):
    """A promise shared by everything that becomes durable at the same moment."""

    @property
    def done(self) -> bool:
        """Whether it has been decided, for good or bad."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until durable; False on time-out; raises StorageFailed if it will never be."""

    def then(self, call: Callable[[MainstemError | None], None]) -> None:
        """Call back once decided, from any thread, with the error if there is one."""

    def hand_over(self) -> None:
        """Let it survive the end of this process, if not yet of the machine: the system has it."""


class Appended(msgspec.Struct, frozen=True):
    """What ``append`` did: the first offset given to each batch, in order."""

    offsets: list[int]
    durable: Durable
    starts: list[int]
    """Where the partition of each batch starts."""


class File(Protocol):
    """An open file, as a head needs it for sendfile; it stays open as long as it is referenced."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def pread(self, length: int, position: int) -> bytes:
        """Read up to ``length`` bytes at ``position``."""


class Slice(msgspec.Struct, frozen=True):
    """Whole record batches, either in memory (``file`` is None) or as a stretch of a file."""

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


class Log(Protocol):
    """Partitions of record batches. Eight methods; everything else is built on them."""

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create the partition, or give it new settings; ``topic`` is its name in messages."""

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions and all they hold; unknown ones are passed over."""

    def append(
        self, batches: Sequence[tuple[PartitionId, WritableBatch]], *, together: bool = True
    ) -> Appended:
        """Append checked batches, all or nothing, and make them visible together.

        Base offset and leader epoch are written into the given buffers. A single batch for a
        ``disk`` topic is durable on return. Raises StorageFull with nothing changed.

        Not ``together``: each batch stands for itself. Those of one partition follow one another,
        are written at once, and a crash may keep only the first of them. There may be fewer offsets
        than batches, but at least one: those beyond were not appended, and are to be given again.
        """

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches from the one that holds ``offset`` (or the next one kept) on.

        At least one batch if there is one below the tail, even if it is over ``max_bytes``; an
        empty slice at the tail. Raises OffsetOutOfRange outside ``start..tail``.
        """

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return what the partition holds now."""

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Return the first visible event at or after a time, None if there is none."""

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``wake`` once, from any thread, as soon as the tail is past ``offset``.

        At once if it is already. Also called when the partition is deleted or the log closed.
        Returns a function that takes the watch back.
        """

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Delete what is before ``start``, and what is at ``end`` or after (a new epoch begins)."""
