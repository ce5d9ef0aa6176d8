"""Changes of a partition's segments other than appends: truncate, replace, rewrite.

Each change is added to the write-ahead log first; old files are removed when that entry is durable.
"""

import threading
from collections.abc import Collection, Iterable

import msgspec

from mainstem.log.commit.checkpoint import Checkpoints
from mainstem.log.commit.deleted_files import DeletedFiles
from mainstem.log.commit.group_commit import Committer
from mainstem.log.commit.wal import Kind
from mainstem.log.disk_partition import PARTITIONS, DiskPartition, PartitionRecord
from mainstem.log.files.files import Files
from mainstem.log.segments.segment import Segment
from mainstem.log.upkeep.segment_rewrite import batches_before, write_segment


class SegmentChanges:
    """Changes the segments of partitions.

    It shares the log's lock; the methods that say "under the lock" are called with it held.
    """

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        committer: Committer,
        checkpoints: Checkpoints,
        deleted_files: DeletedFiles,
    ) -> None:
        self._files, self._lock = files, lock
        self._committer, self._checkpoints = committer, checkpoints
        self._deleted_files = deleted_files

    def cut_start(self, partition: DiskPartition, start: int) -> None:
        """Move the log start offset forward; under the lock."""
        if start <= partition.start:
            return
        partition.check_offset(start)
        dropped = partition.outlived(start)
        gone = [(each.base, each.generation) for each in dropped]
        begins = dropped[-1].next_offset if dropped else 0
        self._committer.note(Kind.CUT, (partition.id, start, begins, gone), "segments")
        for segment in partition.drop_before(start):
            self._deleted_files.add_segment(segment)
        self._checkpoints.changed(partition)

    def cut_end(self, partition: DiskPartition, end: int) -> None:
        """Truncate a partition and begin a new epoch; under the lock.

        The partition must have no pending appends.
        """
        partition.check_offset(end)
        removed = [each for each in partition.segments if each.next_offset > end]
        generation = partition.generation + 1
        added = []
        if removed and removed[0].base < end:
            cut = removed[0]
            fresh = partition.empty_segment(cut.base, cut.created_ms, generation)
            fresh.dense = cut.dense
            before = batches_before(cut, end)
            write_segment(self._files, partition, fresh, before, next_offset=end)
            added.append(fresh)
        kept = [each for each in partition.segments if each.next_offset <= end]
        self._checkpoints.sync_segments([(each, each.size) for each in kept])
        if kept or added:
            self._files.sync_dir(PARTITIONS)
            self._files.sync_dir(partition.directory)
        record = msgspec.structs.replace(
            partition.record(),
            end=end,
            generation=generation,
            epochs=(*partition.epochs, (partition.epoch + 1, end)),
            segments=tuple(each.record() for each in (*kept, *added) if each.size),
        )
        # The generation is used up even if there is no space for the entry.
        partition.generation = generation
        self.note_replaced(partition, record, removed)
        partition.replace(removed, added)
        partition.take_back(end)

    def rewrite(
        self,
        partition: DiskPartition,
        segment: Segment,
        batches: Iterable[bytes | bytearray],
        *,
        gaps: bool,
    ) -> None:
        """Replace a segment by a new one with these batches.

        Nothing else may use the log meanwhile.
        """
        partition.generation += 1
        added = partition.empty_segment(segment.base, segment.created_ms, partition.generation)
        added.dense = segment.dense and not gaps
        write_segment(self._files, partition, added, batches, next_offset=segment.next_offset)
        with self._lock:
            partition.replace([segment], [added])
            partition.reveal(partition.end)
            self.note_replaced(partition, partition.record(), [segment])

    def note_replaced(
        self, partition: DiskPartition, record: PartitionRecord, removed: Collection[Segment]
    ) -> None:
        """Add a new recovery point to the write-ahead log, discard old segments; under the lock."""
        gone = [(each.base, each.generation) for each in removed]
        self._committer.note(Kind.REPLACE, (record, gone), "segments")
        for segment in removed:
            self._deleted_files.add_segment(segment)
        self._checkpoints.changed(partition)

    def discard(self, segments: Iterable[Segment]) -> None:
        """Delete the files of new segments that are not used after all."""
        with self._lock:
            for segment in segments:
                self._deleted_files.add_segment(segment)
