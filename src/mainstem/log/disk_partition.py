"""A partition on disk: its segments in order, its bounds, and who waits at its tail.

Everything here is called under the log's lock and does no more than it must; ``DiskLog`` decides
when a batch becomes visible, and writes what recovery needs to the write-ahead log.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from mainstem.core.batch import place, read_span
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.file_cache import FileCache
from mainstem.log.files import Files
from mainstem.log.port import Bounds, PartitionId, WritableBatch
from mainstem.log.segment import Segment, SegmentRecord
from mainstem.log.tail_watches import TailWatches, Wake

PARTITIONS = "partitions"


class PartitionRecord(msgspec.Struct, frozen=True, array_like=True):
    """A partition as the manifest knows it: its recovery point."""

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
        self._files = files
        self._file_cache = file_cache
        self.id = partition
        self.topic = topic
        self.settings = settings
        self.directory = f"{PARTITIONS}/{partition.topic_id}-{partition.number}"
        self.start = self.tail = self.end = 0
        self.key = bytes.fromhex(partition.topic_id) + partition.number.to_bytes(4, "big")
        """The partition's identity in the write-ahead log."""
        self.generation = 0
        """Part of the names of new segments; grows when segments are replaced, so that no name is
        ever used twice."""
        self.epoch = 0
        """The current leader epoch."""
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        """Every leader epoch with the offset it began at."""
        self.segments: list[Segment] = []
        self.tail_segment: Segment | None = None
        self.tail_position = 0
        self.is_dirty = False
        """Whether the next checkpoint knows that this one has changed."""
        self.touched = False
        """Whether the write-ahead log says since the last checkpoint that this one has changed."""
        self.names_made = 0
        """Grows with every file that is made in the directory."""
        self.names_synced = 0
        """How far that has been made durable, together with the directory's own name."""
        self.saved: msgspec.Raw | None = None
        """The recovery point that the manifest has; what came later is in the write-ahead log."""
        self.watches = TailWatches()

    @classmethod
    def load(cls, files: Files, file_cache: FileCache, record: PartitionRecord) -> "DiskPartition":
        """Bring back what the manifest describes; no file is opened yet."""
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
        """Describe the partition for the manifest."""
        return PartitionRecord(
            self.id.topic_id,
            self.id.number,
            self.topic,
            self.settings,
            self.start,
            self.end,
            self.generation,
            tuple(self.epochs),
            # An empty segment is only an intention: recovery finds its file, if it comes to be.
            tuple(segment.record() for segment in self.segments if segment.size),
        )

    @property
    def names_changed(self) -> bool:
        """Whether files were made since the directory was last synced."""
        return self.names_made > self.names_synced

    @property
    def place(self) -> str:
        """How messages name the partition."""
        return f"partition {self.id.number} of topic {self.topic!r}"

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        if len(self.segments) == 1:
            return self.segments[0].size
        return sum([segment.size for segment in self.segments])

    def bounds(self) -> Bounds:
        """Return what the partition holds now."""
        return Bounds(self.start, self.tail, self.end, self.size_bytes, self.epoch)

    def room_for(self, size: int, now_ms: Callable[[], int]) -> Segment:
        """Return the segment to append to, a new one if the last is full."""
        active = self.segments[-1] if self.segments else None
        if active is None or not active.has_room(size, self.settings.segment_bytes):
            active = self.roll(now_ms())
        if not active.created:
            self.names_made += 1
        return active

    def roll(self, now_ms: int) -> Segment:
        """Begin a new segment."""
        self._files.make_dir(self.directory)
        self.seal()
        active = self.empty_segment(self.end, now_ms, self.generation)
        self.segments.append(active)
        return active

    def seal(self, but: int = 0) -> None:
        """Mark that nothing will be appended to the segments, but for so many at the end."""
        for segment in self.segments[: len(self.segments) - but]:
            segment.sealed = True

    def empty_segment(self, base: int, created_ms: int, generation: int) -> Segment:
        """Return a segment of this partition that is not part of it yet."""
        return Segment(self._file_cache, self.directory, base, created_ms, generation)

    def stamp(self, batches: Sequence[WritableBatch]) -> list[int]:
        """Write the places in the log of the next batches into them; return their offsets."""
        offset, epoch = self.end, self.epoch
        offsets = []
        for batch in batches:
            place(batch, offset, epoch)
            offsets.append(offset)
            offset += read_span(batch)[0] + 1
        return offsets

    def fitting(self, batches: Sequence[WritableBatch], most_bytes: int) -> Sequence[WritableBatch]:
        """Return as many batches, each smaller than that, as go into one segment: at least one."""
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
        """Count batches as part of the log, though readers do not see them yet."""
        for batch in batches:
            segment.accept(batch, self.end)
            self.end = segment.next_offset

    def reveal(self, tail: int) -> None:
        """Let readers see everything before ``tail``, which must be the border of a batch."""
        self.tail = tail
        segment = self.segments[-1] if self.segments else None
        if segment is not None and tail == self.end:
            self.tail_segment, self.tail_position = segment, segment.size
        else:
            self.tail_segment, self.tail_position = None, 0

    def reveal_at(self, tail: int, segment: Segment, position: int) -> None:
        """Let readers see everything before ``tail``, which is at ``position`` of ``segment``."""
        self.tail, self.tail_segment, self.tail_position = tail, segment, position

    def readable(self, offset: int) -> list[tuple[Segment, int]]:
        """Return the next segments that may hold ``offset``, each with its readable length."""
        self.check_offset(offset)
        if offset == self.tail:
            return []
        first = bisect_right(self.segments, offset, key=_base) - 1
        found = []
        for segment in self.segments[max(first, 0) :]:
            if segment.base >= self.tail:
                # Begun behind the tail, whose own segment may be empty by now, and gone.
                break
            if segment is self.tail_segment:
                found.append((segment, self.tail_position))
                # Whoever reads up to the tail comes back for what is appended there.
                segment.remember(self.tail, self.tail_position)
                break
            if segment.next_offset > offset:
                found.append((segment, segment.size))
                # One more is enough: only a compacted segment can turn out to hold nothing.
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

    def check_offset(self, offset: int) -> None:
        """Refuse an offset that readers could not ask for."""
        if not self.start <= offset <= self.tail:
            raise OffsetOutOfRange(self.place, offset, self.start, self.tail)

    def outlived(self, start: int) -> list[Segment]:
        """Return the segments that hold nothing once the start has moved on."""
        keep = 0
        last = len(self.segments) - 1
        for segment in self.segments:
            # The last segment goes only if all of it is visible; an empty one would come again
            # under the same name.
            stays = keep == last and (self.tail < self.end or segment.size == 0)
            if segment.next_offset > start or stays:
                break
            keep += 1
        return self.segments[:keep]

    def drop_before(self, start: int) -> list[Segment]:
        """Move the start on; return the segments that hold nothing any more."""
        dropped = self.outlived(start)
        self.start = start
        self.segments = self.segments[len(dropped) :]
        if not self.segments:
            self.tail_segment, self.tail_position = None, 0
        return dropped

    def replace(self, removed: Collection[Segment], added: Iterable[Segment]) -> None:
        """Put segments in the place of others that hold the same offsets."""
        gone = set(removed)
        kept = [each for each in self.segments if each not in gone]
        self.segments = sorted([*kept, *added], key=_base)
        self.seal(but=1)

    def take_back(self, end: int) -> None:
        """Let the log end at ``end``, where its last segment ends now, and begin a new epoch."""
        self.end = end
        self.epoch += 1
        self.epochs.append((self.epoch, end))
        self.reveal(end)

    def close(self) -> list[Wake]:
        """Return every watch, to be called, since nothing will come any more."""
        return self.watches.all()

    def begin_epoch(self, epoch: int) -> None:
        """Mark that the end of the log may have been taken back: appends carry a new epoch."""
        self.epoch = epoch
        if self.epochs[-1][1] == self.end:
            self.epochs[-1] = (epoch, self.end)
        else:
            self.epochs.append((epoch, self.end))


def _base(segment: Segment) -> int:
    return segment.base
