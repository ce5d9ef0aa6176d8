"""Checkpoints: they bound how much recovery has to read.

The order of the steps makes a checkpoint safe:

1. a new write-ahead file is begun, so that older files hold only what is before it;
2. pending appends are committed, the segments written since the last checkpoint are synced, and
   files that are no longer needed are removed;
3. the manifest is replaced, and says that recovery begins at the new write-ahead file;
4. only then are the older write-ahead files removed.
"""

import threading
from typing import NamedTuple

from mainstem.log.commit import manifest, wal
from mainstem.log.commit.deleted_files import DeletedFiles
from mainstem.log.commit.group_commit import Committer
from mainstem.log.disk_partition import PARTITIONS, DiskPartition, PartitionRecord
from mainstem.log.files.files import Files
from mainstem.log.options import Options
from mainstem.log.partition_map import PartitionMap
from mainstem.log.port import PartitionId
from mainstem.log.segments.segment import Segment

QUIET_MS = 10_000
"""After this many ms with hardly any writes, the write-ahead log's reserved space is freed."""
_QUIET_STEPS = 4
"""Below this many allocation steps, the space of the write-ahead log is not worth freeing."""


class _Mark(NamedTuple):
    """A position in the write-ahead log, and the time at which it was noted."""

    number: int
    used: int
    at_ms: int


class Checkpoints:
    """Makes checkpoints of the partitions that have changed since the last checkpoint.

    It shares the log's lock; the methods that say "under the lock" are called with it held.
    """

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        committer: Committer,
        partitions: PartitionMap,
        deleted_files: DeletedFiles,
        options: Options,
    ) -> None:
        self._files, self._lock, self._partitions = files, lock, partitions
        self._committer, self._deleted_files = committer, deleted_files
        self._options = options
        self.in_progress = threading.RLock()
        """Held while recovery points are made durable, by checkpoints and by compaction."""
        self._dirty: dict[PartitionId, DiskPartition] = {}
        self._spare: str | None = None
        """An old write-ahead file whose space the next one uses."""
        self._bytes = self._batches = 0
        self._overdue = False
        self._mark = _Mark(-1, 0, 0)

    def appended(self, partition: DiskPartition, size: int, batches: int = 1) -> None:
        """Count appended data, which recovery must read until a checkpoint; under the lock."""
        if not partition.is_dirty:
            self.changed(partition)
        self._bytes += size
        self._batches += batches

    def changed(self, partition: DiskPartition) -> None:
        """Mark a partition as changed since the last manifest; under the lock."""
        self._dirty[partition.id] = partition
        partition.is_dirty = True

    def forget(self, partition: DiskPartition) -> None:
        """Leave a deleted partition out of the next checkpoint; under the lock."""
        self._dirty.pop(partition.id, None)

    @property
    def due(self) -> bool:
        """Whether so much was written since the last checkpoint that the next one is due."""
        return (
            self._overdue
            or self._committer.wal.used >= self._options.checkpoint_wal_bytes
            or self._bytes >= self._options.checkpoint_bytes
            or self._batches >= self._options.checkpoint_batches
        )

    def is_oversized(self, now_ms: int) -> bool:
        """Tell whether the write-ahead log reserves much space that it has not needed lately."""
        step = self._options.wal_step_bytes
        with self._lock:
            log = self._committer.wal
            mark, now = self._mark, _Mark(log.number, log.used, now_ms)
            is_quiet = mark.number == now.number and now.used - mark.used <= step
            if is_quiet and 0 <= now_ms - mark.at_ms < QUIET_MS:
                return False
            self._mark = now
            return is_quiet and (self._spare is not None or log.allocated > _QUIET_STEPS * step)

    def make(self, *, shrink: bool = False) -> None:
        """Make a checkpoint: update the manifest, and remove the older write-ahead files.

        ``shrink``: free disk space: the next write-ahead file begins empty, and no old file is kept
        for reuse.
        """
        with self.in_progress:
            number = self._committer.wal.number + 1
            spare, self._spare = self._spare, None
            if shrink:
                spare = None
            place, file = wal.prepare(self._files, number, spare)
            with self._lock:
                self._committer.flush()
                sequence = self._committer.wal.sequence
                self._committer.wal.switch(place, file)
                dirty, self._dirty = self._dirty, {}
                self._bytes = self._batches = 0
                for each in dirty.values():
                    each.is_dirty = each.touched = False
            try:
                self._committer.commit()
                if self._committer.failed is not None:
                    return
                self._save(dirty)
                # Once the manifest is written, no record tells a later process which files to
                # remove.
                self._deleted_files.remove()
                with self._lock:
                    known = [getattr(each, "saved", None) for each in self._partitions.values()]
                manifest.write(
                    self._files, number, sequence, [each for each in known if each is not None]
                )
            except BaseException:
                # The next manifest must include what this one could not save.
                with self._lock:
                    for each in dirty.values():
                        self.changed(each)
                    self._overdue = self._committer.failed is None
                raise
            self._overdue = False
            self._remove_wal_before(number, keep_one=not shrink)

    def _save(self, dirty: dict[PartitionId, DiskPartition]) -> None:
        """Sync the segments of changed partitions, and encode their recovery points."""
        if len(dirty) >= self._options.sync_all_from:
            self._save_with_one_sync(list(dirty.values()))
            return
        names: dict[DiskPartition, int] = {}
        for partition in dirty.values():
            record = self.capture(partition, names)
            partition.saved = manifest.encode_partition(record)
        self.sync_names(names)

    def _save_with_one_sync(self, dirty: list[DiskPartition]) -> None:
        """Sync the partitions by one sync of the whole file system, and encode their records.

        For many partitions this is cheaper than ``_save``.
        """
        with self._lock:
            described = [
                (each, each.record(), [(part, part.size) for part in each.segments])
                for each in dirty
                if each.id in self._partitions
            ]
            names = {each: each.names_made for each in dirty}
        # The records may describe batches that are only in the write-ahead log, not yet durable.
        self._committer.commit()
        self._committer.check()
        for _, _, segments in described:
            for segment, size in segments:
                if size > segment.synced_size:
                    segment.save_index(sync=False)
        try:
            self._files.sync_all()
        except OSError as error:
            raise self._committer.fail(error, "syncing the file system") from error
        for partition, record, segments in described:
            partition.saved = manifest.encode_partition(record)
            for segment, size in segments:
                segment.synced_size = max(size, segment.synced_size)
                segment.forget_index()
        with self._lock:
            for partition, made in names.items():
                partition.names_synced = max(made, partition.names_synced)

    def capture(self, partition: DiskPartition, names: dict[DiskPartition, int]) -> PartitionRecord:
        """Sync a partition's segments, but not its directory; return the recovery point.

        Adds the partition to ``names`` if its directory must be synced (``sync_names``).
        """
        with self._lock:
            record = partition.record()
            segments = [(each, each.size) for each in partition.segments]
            waiting = partition.tail < partition.end
            if partition.names_changed:
                names[partition] = partition.names_made
        if waiting:
            # The record may describe batches that are only in the write-ahead log, not yet durable.
            self._committer.commit()
            self._committer.check()
        if partition.id in self._partitions:
            self.sync_segments(segments)
        return record

    def sync_segments(self, segments: list[tuple[Segment, int]]) -> None:
        """Make each segment durable up to a size; the bytes up to there must have been written.

        Behind them there may be space that is only reserved, for atomic appends whose commit has
        not written them yet.
        """
        for segment, size in segments:
            if size > segment.synced_size:
                segment.save_index()
                try:
                    segment.sync(size)
                except OSError as error:
                    # A second fsync could succeed although the bytes were lost.
                    raise self._committer.fail(error, f"syncing {segment.path}") from error
        for segment, _ in segments[:-1]:
            segment.forget_index()

    def sync_names(self, names: dict[DiskPartition, int]) -> None:
        """Sync the directories of new files, so that the files' names are durable."""
        if not names:
            return
        try:
            self._files.sync_dir(PARTITIONS)
            for partition in names:
                if partition.id in self._partitions:
                    self._files.sync_dir(partition.directory)
        except OSError as error:
            raise self._committer.fail(error, "syncing the directories of partitions") from error
        with self._lock:
            for partition, made in names.items():
                partition.names_synced = max(made, partition.names_synced)

    def _remove_wal_before(self, number: int, *, keep_one: bool) -> None:
        """Remove the write-ahead files before ``number``.

        ``keep_one``: keep one of them for reuse.
        """
        for place in wal.listed(self._files):
            if place.number < number:
                if keep_one and self._spare is None:
                    self._spare = place.path
                else:
                    self._files.remove(place.path)
