"""Appends to the log on disk: assign offsets, write batches, make them visible to readers.

Most appends are of one batch (``_append_one``) or of independent batches (``_append_apart``): all
batches for one segment are one write. Batches that must be atomic (``_append_together``) are
written to their segments by the group commit, once the write-ahead log has all of them.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter

from mainstem.core.errors import MainstemError, StorageFull
from mainstem.core.topic_settings import Durability
from mainstem.log.commit.checkpoint import Checkpoints
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.commit.group_commit import Committer, Group
from mainstem.log.commit.shared_batches import SAME_FROM, encode_append, sources
from mainstem.log.commit.wal import PART_OVERHEAD, Kind, Part
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.memory import MemoryPartition
from mainstem.log.options import Options
from mainstem.log.partition_map import Partition, PartitionMap
from mainstem.log.port import Appended, Batches, Durable, PartitionId, WritableBatch
from mainstem.log.segments.segment import Segment
from mainstem.log.tail_watches import Wake, call_all

SHARED_BYTES = 64 * 1024
"""Copies of a batch of this size or more share its bytes; a smaller one is copied, because writing
it in two parts takes longer.
"""
WRITTEN_HERE_BYTES = 1024 * 1024
"""Atomic appends without fsync up to this size are written to their segments at once."""


class Appender:
    """Appends batches to the partitions of one log; holds the log's lock while it does."""

    def __init__(
        self,
        lock: threading.Lock,
        partitions: PartitionMap,
        committer: Committer,
        checkpoints: Checkpoints,
        now_ms: Callable[[], int],
        options: Options,
    ) -> None:
        self._lock, self._partitions = lock, partitions
        self._committer, self._checkpoints = committer, checkpoints
        self._now_ms = now_ms
        self._large_batch_bytes = options.large_batch_bytes
        self._max_memory_bytes = options.max_memory_bytes
        self._memory_bytes = 0

    def append(
        self,
        batches: Batches,
        *,
        together: bool,
        lazy: bool = False,
    ) -> Appended:
        """Append checked batches, as defined by the ``Log`` port."""
        if len(batches) == 1:
            ((partition, batch),) = batches
            return self._append_one(partition, batch, lazy)
        return self._append_together(batches) if together else self._append_apart(batches)

    def _append_one(
        self, partition_id: PartitionId, batch: WritableBatch, lazy: bool = False
    ) -> Appended:
        """Append a single batch: the common case, made fast."""
        wakes: list[Wake] = []
        with self._lock:
            if self._committer.failed is not None or self._partitions.is_closed:
                self.check_writable()
            partition = self._partitions.get(partition_id) or self._partitions.find(partition_id)
            offsets, durable = self._append_run(partition, (batch,), wakes, lazy)
            starts = [partition.start]
        if wakes:
            call_all(wakes)
        return Appended(offsets, durable, starts)

    def _append_apart(self, batches: Batches) -> Appended:
        """Append independent batches: one write for each partition, one commit for all."""
        offsets: list[int] = []
        starts: list[int] = []
        wakes: list[Wake] = []
        durable: Durable = AT_ONCE
        with self._lock:
            if self._committer.failed is not None or self._partitions.is_closed:
                self.check_writable()
            for partition_id, run in _runs(batches):
                try:
                    partition = self._partitions.get(partition_id) or self._partitions.find(
                        partition_id
                    )
                    given, promise = self._append_run(partition, run, wakes)
                except MainstemError:
                    if not offsets:
                        raise
                    break
                offsets += given
                starts += [partition.start] * len(given)
                if promise is not AT_ONCE:
                    durable = promise
                if len(given) < len(run):
                    break
        if wakes:
            call_all(wakes)
        return Appended(offsets, durable, starts)

    def _append_run(
        self,
        partition: Partition,
        batches: Sequence[WritableBatch],
        wakes: list[Wake],
        lazy: bool = False,
    ) -> tuple[list[int], Durable]:
        """Append batches to one segment in one write; adds the watches to call to ``wakes``."""
        if isinstance(partition, MemoryPartition):
            self._check_memory(sum(map(len, batches)))
            waits = partition.tail < partition.end
            offsets = [partition.append(batch) for batch in batches]
            if waits:
                # Earlier batches wait for an atomic commit, and readers see batches in order.
                group = self._committer.gather()
                group.memory_tails[partition] = partition.end
                return offsets, group.commit
            wakes += partition.advance(partition.end)
            return offsets, AT_ONCE
        large = self._large_batch_bytes
        if len(batches) > 1:
            batches = partition.fitting(batches, large)
        offsets = partition.stamp(batches)
        data = batches[0] if len(batches) == 1 else b"".join(batches)
        synced = partition.settings.durability == "fsync" or partition.tail < partition.end
        logged = synced and len(batches[0]) < large
        # Who watches the tail waits for the commit.
        lazy = lazy and logged and not partition.watches
        segment = self._write(partition, data, logged, len(batches) > 1, lazy)
        position = segment.size
        partition.accept(segment, batches)
        self._checkpoints.appended(partition, len(data), len(batches))
        if synced:
            try:
                self._promise(partition, segment, position, data, logged, lazy)
            except Exception as error:
                # The batch is already in its segment, and must not become visible unsynced.
                raise self._committer.fail(error, f"appending to {partition.place}") from error
            wakes += partition.note_written(offsets[0], segment)
            return offsets, self._committer.group.commit
        wakes += partition.reveal_at(partition.end, segment, segment.size)
        return offsets, AT_ONCE

    def _write(
        self,
        partition: DiskPartition,
        data: WritableBatch | bytes,
        logged: bool,
        several: bool,
        lazy: bool = False,
    ) -> Segment:
        """Write bytes after the end of the last segment, where there is room; returns the segment.

        They become part of the segment when the caller accepts them.

        ``logged``: also reserve space in the write-ahead log.
        """
        try:
            if not self._committer.wal.opened:
                self._begin()
            if logged:
                self._committer.wal.reserve(len(data) + PART_OVERHEAD)
            # A lazy batch is in its segment before the write-ahead log is written: after kill -9
            # recovery finds it there.
            if (lazy or not logged) and not partition.touched:
                self._touch(partition)
            segment = partition.room_for(len(data), self._now_ms)
            segment.write(data)
        except OSError as error:
            self._clear_end(partition, several)
            raise self._committer.space.refusal(error, f"appending to {partition.place}") from error
        return segment

    def _clear_end(self, partition: DiskPartition, several: bool) -> None:
        """Truncate what a failed write left in the segment.

        Of several batches some may be complete, and recovery must not bring back a refused append,
        so the truncation is synced. Of a single batch only a torn piece can be left, which recovery
        does not accept, but would report as damage.
        """
        try:
            for segment in partition.segments[-1:]:
                segment.clear_end(sync=several)
        except OSError as error:
            if several:
                raise self._committer.fail(error, f"appending to {partition.place}") from error

    def _promise(
        self,
        partition: DiskPartition,
        segment: Segment,
        position: int,
        data: WritableBatch | bytes,
        logged: bool,
        lazy: bool = False,
    ) -> None:
        """Add batches to the current group commit, which makes them durable and visible."""
        group = self._committer.gather(lazy=lazy)
        if logged:
            self._committer.wal.add_batches(
                partition.key, segment.base, segment.generation, position, data
            )
        else:
            group.direct[segment.path] = segment.file
            if partition.names_changed:
                group.renamed[partition.directory] = partition
        group.tails[partition] = (partition.end, segment, segment.size)
        if lazy and group.deferred:
            # Atomic batches before it may not be in this segment yet, only in the write-ahead log.
            self._committer.flush()

    def _append_together(self, batches: Batches) -> Appended:
        with self._lock:
            self.check_writable()
            found = [(self._partitions.find(partition), batch) for partition, batch in batches]
            copies = sources(batch for each, batch in found if isinstance(each, DiskPartition))
            try:
                segments = self._reserve_together(found, copies)
            except OSError as error:
                what = f"appending {len(batches)} batches together"
                raise self._committer.space.refusal(error, what) from error
            waits = sum(len(batch) for _, batch in found) > WRITTEN_HERE_BYTES or any(
                each.settings.durability is Durability.FSYNC or each.tail < each.end
                for each, _ in found
            )
            # Without fsync the entry in the page cache is enough, unless earlier batches wait. But
            # many bytes are written to the segments by the commit, outside the lock.
            group = self._committer.gather() if waits else self._committer.new_group()
            try:
                offsets = self._accept_together(group, found, segments, copies)
                wakes = [] if waits else self._committer.finish_unsynced(group)
            except Exception as error:
                # Some batches may be accepted already, and must not become visible alone.
                what = f"appending {len(batches)} batches together"
                raise self._committer.fail(error, what) from error
            durable: Durable = group.commit if waits else AT_ONCE
            starts = [each.start for each, _ in found]
        call_all(wakes)
        return Appended(offsets, durable, starts)

    def _accept_together(
        self,
        group: Group,
        found: Sequence[tuple[Partition, WritableBatch]],
        segments: Mapping[DiskPartition, Segment],
        copies: Sequence[int],
    ) -> list[int]:
        """Assign offsets to atomic batches; the group commit writes them and makes them visible."""
        offsets: list[int] = []
        parts: list[Part] = []
        bodies: dict[int, memoryview] = {}
        for partition, batch in found:
            offsets.append(partition.end)
            if isinstance(partition, MemoryPartition):
                partition.append(batch)
                group.memory_tails[partition] = partition.end
                continue
            segment = segments[partition]
            partition.stamp((batch,))
            position = segment.size
            partition.accept(segment, (batch,))
            self._checkpoints.appended(partition, len(batch))
            body = bodies.get(copies[len(parts)])
            kept = bytes(batch) if body is None else bytes(memoryview(batch)[:SAME_FROM])
            group.deferred.append((segment, position, kept))
            if body is not None:
                # A large message for many queues is in memory once.
                group.deferred.append((segment, position + SAME_FROM, body))
            elif len(batch) >= SHARED_BYTES:
                bodies[len(parts)] = memoryview(kept)[SAME_FROM:]
            power = partition.settings.durability is Durability.FSYNC
            where = (partition.key, segment.base, segment.generation, position)
            parts.append(Part(*where, power, kept))
            group.tails[partition] = (partition.end, segment, segment.size)
        if parts:
            self._committer.wal.add(*encode_append(parts, copies))
        return offsets

    def _reserve_together(
        self, found: Sequence[tuple[Partition, WritableBatch]], copies: Sequence[int]
    ) -> dict[DiskPartition, Segment]:
        """Reserve all disk space that an atomic append needs, before any batch is accepted."""
        in_memory = [len(batch) for each, batch in found if isinstance(each, MemoryPartition)]
        if in_memory:
            self._check_memory(sum(in_memory))
        sizes: dict[DiskPartition, int] = {}
        logged, on_disk = 0, [each for each in found if isinstance(each[0], DiskPartition)]
        for at, (partition, batch) in enumerate(on_disk):
            assert isinstance(partition, DiskPartition)
            sizes[partition] = sizes.get(partition, 0) + len(batch)
            # The write-ahead log has each batch once, however many copies of it are appended.
            logged += len(batch) if copies[at] == at else 0
        if sizes and not self._committer.wal.opened:
            self._begin()
        self._committer.wal.reserve(logged + PART_OVERHEAD * (len(found) + 1))
        segments: dict[DiskPartition, Segment] = {}
        try:
            for partition, size in sizes.items():
                segments[partition] = partition.room_for(size, self._now_ms)
                segments[partition].reserve(size)
        except OSError:
            # What was reserved would keep the disk full; readers ignore it if it stays.
            for segment in segments.values():
                with suppress(OSError):
                    segment.clear_end(sync=False)
            raise
        return segments

    def check_writable(self) -> None:
        """Raise StorageFailed if a write or sync has failed before, Closed if the log is closed."""
        if self._committer.failed is not None:
            raise self._committer.failed
        self._partitions.check_open()

    def _check_memory(self, length: int) -> None:
        """Raise StorageFull if ``memory`` topics would together exceed ``max_memory_bytes``."""
        self._memory_bytes += length
        limit = self._max_memory_bytes
        if self._memory_bytes <= limit:
            return
        # The counter only grows; count again, since retention and trims may have freed some.
        memory = [each for each in self._partitions.values() if isinstance(each, MemoryPartition)]
        self._memory_bytes = sum(each.size_bytes for each in memory) + length
        if self._memory_bytes > limit:
            self._memory_bytes -= length
            raise StorageFull(
                f"topics with durability memory may hold {limit} bytes together, and this append "
                f"would make it {self._memory_bytes + length}; trim them, or set retention_bytes"
            )

    def _begin(self) -> None:
        """Write a durable OPENED entry, by which the next opening detects an unclean stop."""
        wal = self._committer.wal
        wal.reserve(0)
        wal.add(Kind.OPENED, [])
        self._committer.flush()
        try:
            wal.file.sync()
        except OSError as error:
            raise self._committer.fail(error, "syncing the write-ahead log") from error
        wal.opened = True

    def _touch(self, partition: DiskPartition) -> None:
        """Write a TOUCH entry, so that recovery scans the tail of this partition."""
        self._committer.wal.reserve(PART_OVERHEAD)
        self._committer.wal.add(Kind.TOUCH, [partition.key])
        self._committer.flush()
        partition.touched = True
        # Even if the append is refused: the next checkpoint drops this entry.
        self._checkpoints.changed(partition)


def _runs(
    batches: Batches,
) -> Iterator[tuple[PartitionId, Sequence[WritableBatch]]]:
    """Group consecutive batches by partition."""
    for partition, run in groupby(batches, itemgetter(0)):
        yield partition, [batch for _, batch in run]
