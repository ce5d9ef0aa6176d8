"""Replaces closed segments by rewritten ones while the log is in use, for compaction and thinning.

How this works: the new segments are written and synced without the lock. Then a recovery point of
the partition is made durable, and under the lock the segments are swapped and the swap is added to
the write-ahead log. If the partition was deleted or truncated meanwhile, the new segments are
deleted again.
"""

import threading
from collections.abc import Callable, Collection

import msgspec

from mainstem.core.errors import MainstemError
from mainstem.log.commit.checkpoint import Checkpoints
from mainstem.log.disk_partition import DiskPartition, PartitionRecord
from mainstem.log.partition_map import PartitionMap
from mainstem.log.segments.segment import Segment
from mainstem.log.upkeep.segment_changes import SegmentChanges

Write = Callable[[int, list[Segment]], Collection[Segment]]
"""Writes segments of a generation into the list; returns the segments that they replace."""


class SegmentSwap:
    """Replaces segments of partitions on disk by rewritten ones; shares the log's lock."""

    def __init__(
        self,
        lock: threading.Lock,
        partitions: PartitionMap,
        checkpoints: Checkpoints,
        segment_changes: SegmentChanges,
    ) -> None:
        self._lock, self._partitions = lock, partitions
        self._checkpoints, self._segment_changes = checkpoints, segment_changes

    def swap(
        self,
        partition: DiskPartition,
        write: Write,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Replace segments by those that ``write`` creates.

        ``is_wanted`` is called under the lock, right before the swap; if it returns False, the new
        segments are deleted instead.
        """
        added: list[Segment] = []
        with self._lock:
            generation = partition.generation = partition.generation + 1
        try:
            removed = write(generation, added)
            with self._checkpoints.in_progress:
                names = {partition: partition.names_made}
                durable = self._checkpoints.capture(partition, names)
                self._checkpoints.sync_names(names)
                with self._lock:
                    if (
                        is_wanted()
                        and self._is_unchanged(partition, durable)
                        and set(removed) <= set(partition.segments)
                    ):
                        before = partition.segments
                        partition.replace(removed, [each for each in added if each.size])
                        record = _recovery_point(partition, durable)
                        try:
                            self._segment_changes.note_replaced(partition, record, removed)
                        except MainstemError:
                            partition.segments = before
                            raise
                        return
        except Exception:
            # If the swap is already in the write-ahead log, the new segments are in use.
            in_use = set(partition.segments)
            self._segment_changes.discard([each for each in added if each not in in_use])
            raise
        # The partition was deleted or truncated meanwhile, or the swap is no longer wanted.
        self._segment_changes.discard(added)

    def _is_unchanged(self, partition: DiskPartition, record: PartitionRecord) -> bool:
        """Tell whether a partition still exists and was not truncated since."""
        return self._partitions.get(partition.id) is partition and record.epochs == tuple(
            partition.epochs
        )


def _recovery_point(partition: DiskPartition, durable: PartitionRecord) -> PartitionRecord:
    """Return a recovery point with the current segments and their durable sizes."""
    before = {(each.base, each.generation): each for each in durable.segments}
    now = [each.record() for each in partition.segments if each.synced_size > 0]
    segments = tuple(before.get((each.base, each.generation), each) for each in now)
    return msgspec.structs.replace(
        durable, start=partition.start, generation=partition.generation, segments=segments
    )
