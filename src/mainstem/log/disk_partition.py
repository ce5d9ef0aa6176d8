"""A partition on disk: its segments in order, its offsets, and the watches of its tail.

All methods are called with the log's lock held. ``appender`` decides when a batch becomes visible,
and writes what recovery needs to the write-ahead log.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from mainstem.core.batch import place, read_span
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.files.files import Files
from mainstem.log.port import Bounds, PartitionId, WritableBatch
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.needed_offsets import Needed
from mainstem.log.segments.segment import Segment, SegmentRecord
from mainstem.log.tail_watches import TailWatches, Wake

PARTITIONS = "partitions"


class PartitionRecord(msgspec.Struct, frozen=True, array_like=True):
    """What the manifest stores of a partition; recovery starts from it."""

    topic_id: str
    number: int
    topic: str
    settings: TopicSettings
    start: int
    end: int
    generation: int
    epochs: tuple[tuple[int, int], ...]
    segments: tuple[SegmentRecord, ...]


class DiskPartition:
    """The segments of one partition; the last one is appended to."""

    def __init__(
        self,
        files: Files,
        file_cache: FileCache,
        partition: PartitionId,
        topic: str,
        settings: TopicSettings,
    ) -> None:
        self._files, self._file_cache = files, file_cache
        self.id, self.topic, self.settings = partition, topic, settings
        self.directory = f"{PARTITIONS}/{partition.topic_id}-{partition.number}"
        self.start = self.tail = self.end = 0
        self.key = bytes.fromhex(partition.topic_id) + partition.number.to_bytes(4, "big")
        """Topic id and partition number, as the write-ahead log encodes them."""
        self.generation = 0
        """A part of segment file names, incremented when segments are replaced: no name is reused.
        """
        self.epoch = 0
        """The current leader epoch."""
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        """Every leader epoch with its start offset."""
        self.segments: list[Segment] = []
        self.tail_segment: Segment | None = None
        self.tail_position = 0
        self.written = 0
        """The offset before which all batches are in their segments, from ``tail`` to ``end``."""
        self.written_segment: Segment | None = None
        self.written_position = 0
        self.is_dirty = False
        """Whether the partition changed since the last checkpoint."""
        self.touched = False
        """Whether the write-ahead log has a TOUCH entry since the last checkpoint."""
        self.names_made = 0
        """The number of files created in the directory so far."""
        self.names_synced = 0
        """The value of ``names_made`` when the directory was last synced."""
        self.saved: msgspec.Raw | None = None
        """The encoded recovery point for the manifest; later changes are in the write-ahead log."""
        self.needed: Needed | None = None
        """The events to keep when upkeep thins the partition; None: all."""
        self.upkept: int | None = None
        """The tail at the last upkeep; None if that failed, or if settings have changed since."""
        self.watches = TailWatches()
        self.written_watches = TailWatches()

    @classmethod
    def load(cls, files: Files, file_cache: FileCache, record: PartitionRecord) -> "DiskPartition":
        """Create the partition from its record; opens no file."""
        partition_id = PartitionId(record.topic_id, record.number)
        partition = cls(files, file_cache, partition_id, record.topic, record.settings)
        partition.start = record.start
        partition.generation = record.generation
        partition.epochs = list(record.epochs)
        partition.epoch = partition.epochs[-1][0]
        partition.segments = [
            Segment.load(file_cache, partition.directory, segment) for segment in record.segments
        ]
        partition.seal(but=1)
        partition.end = record.end
        partition.reveal(record.end)
        return partition

    def record(self) -> PartitionRecord:
        """Return the record for the manifest."""
        return PartitionRecord(
            self.id.topic_id,
            self.id.number,
            self.topic,
            self.settings,
            self.start,
            self.end,
            self.generation,
            tuple(self.epochs),
            # Empty segments have no file yet; recovery finds the file by its name.
            tuple(segment.record() for segment in self.segments if segment.size),
        )

    @property
    def names_changed(self) -> bool:
        """Whether files were created since the directory was last synced."""
        return self.names_made > self.names_synced

    @property
    def place(self) -> str:
        """The partition's name in messages."""
        return f"partition {self.id.number} of topic {self.topic!r}"

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments together."""
        if len(self.segments) == 1:
            return self.segments[0].size
        return sum([segment.size for segment in self.segments])

    def bounds(self, *, written: bool = False) -> Bounds:
        """Return the current offsets and size of the partition; see ``readable``."""
        tail = self.written if written else self.tail
        return Bounds(self.start, tail, self.end, self.size_bytes, self.epoch)

    def room_for(self, size: int, now_ms: Callable[[], int]) -> Segment:
        """Return the segment to append to; begins a new one if the last has no room."""
        active = self.segments[-1] if self.segments else None
        if active is None or not active.has_room(size, self.settings.segment_bytes):
            active = self.roll(now_ms())
        if not active.created:
            self.names_made += 1
        return active

    def roll(self, now_ms: int) -> Segment:
        """Seal the last segment and begin a new one."""
        self._files.make_dir(self.directory)
        self.seal()
        active = self.empty_segment(self.end, now_ms, self.generation)
        self.segments.append(active)
        return active

    def seal(self, but: int = 0) -> None:
        """Mark all segments except the last ``but`` as sealed: nothing is appended to them."""
        for segment in self.segments[: len(self.segments) - but]:
            segment.sealed = True

    def closed_segments(self) -> list[Segment]:
        """Return the segments whose events are all visible, without the one that is appended to."""
        # Batches beyond the tail may not be written yet.
        return [each for each in self.segments[:-1] if each.next_offset <= self.tail]

    def empty_segment(self, base: int, created_ms: int, generation: int) -> Segment:
        """Return a new segment, not yet added to the partition."""
        return Segment(self._file_cache, self.directory, base, created_ms, generation)

    def stamp(self, batches: Sequence[WritableBatch]) -> list[int]:
        """Write base offset and leader epoch into the batches; return their base offsets."""
        offset, epoch = self.end, self.epoch
        offsets = []
        for batch in batches:
            place(batch, offset, epoch)
            offsets.append(offset)
            offset += read_span(batch)[0] + 1
        return offsets

    def fitting(self, batches: Sequence[WritableBatch], most_bytes: int) -> Sequence[WritableBatch]:
        """Return the leading batches that fit into one segment; at least one batch.

        A batch of ``most_bytes`` or more is returned alone.
        """
        active, limit = self.segments[-1] if self.segments else None, self.settings.segment_bytes
        size = len(batches[0])
        left = limit - size
        if active is not None and active.has_room(size, limit):
            left -= active.size
        for count, batch in enumerate(batches[1:], 1):
            left -= len(batch)
            if left < 0 or len(batch) >= most_bytes or size >= most_bytes:
                return batches[:count]
        return batches

    def accept(self, segment: Segment, batches: Iterable[WritableBatch | bytes]) -> None:
        """Add batches that are written, or whose space is reserved; they are not visible yet."""
        for batch in batches:
            segment.accept(batch, self.end)
            self.end = segment.next_offset

    def reveal(self, tail: int) -> None:
        """Make batches visible by moving the tail to their end."""
        self.tail = tail
        segment = self.segments[-1] if self.segments else None
        if segment is not None and tail == self.end:
            self.tail_segment, self.tail_position = segment, segment.size
        else:
            self.tail_segment, self.tail_position = None, 0
        self._write_at(tail, self.tail_segment, self.tail_position)

    def reveal_at(self, tail: int, segment: Segment, position: int) -> list[Wake]:
        """Move the tail to an offset at ``position`` in ``segment``; return the watches to call."""
        self.tail, self.tail_segment, self.tail_position = tail, segment, position
        wakes = self.watches.due(tail)
        if tail > self.written:
            self._write_at(tail, segment, position)
            wakes += self.written_watches.due(tail)
        return wakes

    def note_written(self, first: int, segment: Segment) -> list[Wake]:
        """Note that the batches from ``first`` to the end are in ``segment``, but not yet visible.

        Returns the watches to call. Does nothing if an atomic append before them is pending, which
        is written to its segment only by its commit.
        """
        if self.written != first:
            return []
        self._write_at(self.end, segment, segment.size)
        return self.written_watches.due(self.end)

    def _write_at(self, written: int, segment: Segment | None, position: int) -> None:
        self.written, self.written_segment, self.written_position = written, segment, position

    def readable(self, offset: int, *, written: bool = False) -> list[tuple[Segment, int]]:
        """Return the next segments that may hold ``offset``, each with its readable length.

        ``written``: also batches that are written but not durable yet, up to ``self.written``
        instead of the tail.
        """
        tail, tail_segment, tail_position = self.tail, self.tail_segment, self.tail_position
        if written:
            tail = self.written
            tail_segment, tail_position = self.written_segment, self.written_position
        self.check_offset(offset, tail)
        if offset == tail:
            return []
        first = bisect_right(self.segments, offset, key=_base) - 1
        found = []
        for segment in self.segments[max(first, 0) :]:
            if segment.base >= tail:
                # This segment begins after the tail, whose own segment may be empty and removed.
                break
            if segment is tail_segment:
                found.append((segment, tail_position))
                # A reader at the tail will come back for the next appends.
                segment.remember(tail, tail_position)
                break
            if segment.next_offset > offset:
                found.append((segment, segment.size))
                # One more segment is enough: only a compacted one may turn out to be empty.
                if segment.dense:
                    break
        return found

    def all_readable(self) -> list[tuple[Segment, int]]:
        """Return all segments, each with its readable length."""
        found = []
        for segment in self.segments:
            if segment.base >= self.tail:
                break
            if segment is self.tail_segment:
                found.append((segment, self.tail_position))
                break
            found.append((segment, segment.size))
        return found

    def check_offset(self, offset: int, tail: int | None = None) -> None:
        """Raise OffsetOutOfRange unless the offset is from ``start`` to ``tail``.

        ``tail``: by default the partition's tail.
        """
        tail = self.tail if tail is None else tail
        if not self.start <= offset <= tail:
            raise OffsetOutOfRange(self.place, offset, self.start, tail)

    def outlived(self, start: int) -> list[Segment]:
        """Return the segments whose events are all before a new start offset."""
        keep = 0
        last = len(self.segments) - 1
        for segment in self.segments:
            # The last segment is dropped only if all of it is visible; an empty one would be
            # created again under the same name.
            stays = keep == last and (self.tail < self.end or segment.size == 0)
            if segment.next_offset > start or stays:
                break
            keep += 1
        return self.segments[:keep]

    def drop_before(self, start: int) -> list[Segment]:
        """Move the start offset; remove and return the segments that lie before it."""
        dropped = self.outlived(start)
        self.start = start
        self.segments = self.segments[len(dropped) :]
        if not self.segments:
            self.tail_segment, self.tail_position = None, 0
            self.written_segment, self.written_position = None, 0
        return dropped

    def replace(self, removed: Collection[Segment], added: Iterable[Segment]) -> None:
        """Replace segments in the list by others that cover the same offsets."""
        gone = set(removed)
        kept = [each for each in self.segments if each not in gone]
        self.segments = sorted([*kept, *added], key=_base)
        self.seal(but=1)

    def take_back(self, end: int) -> None:
        """Set the log end to ``end``, where the last segment now ends, and begin a new epoch."""
        self.end = end
        # Offsets from ``end`` on are given to other events now.
        self.needed = None
        self.epoch += 1
        self.epochs.append((self.epoch, end))
        self.reveal(end)

    def close(self) -> list[Wake]:
        """Return all watches, to be called when the partition is closed."""
        return [*self.watches.all(), *self.written_watches.all()]

    def begin_epoch(self, epoch: int) -> None:
        """Begin a new leader epoch, since the log may have been truncated."""
        self.epoch = epoch
        if self.epochs[-1][1] == self.end:
            self.epochs[-1] = (epoch, self.end)
        else:
            self.epochs.append((epoch, self.end))


def _base(segment: Segment) -> int:
    return segment.base
