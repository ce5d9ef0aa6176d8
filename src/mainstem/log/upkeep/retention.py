"""Retention: begins new segments, deletes those that are too old or make a partition too large."""

import threading

from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.partition_map import PartitionMap
from mainstem.log.segments.segment import Segment
from mainstem.log.upkeep.segment_changes import SegmentChanges


class Retention:
    """Applies retention_ms, retention_bytes and segment_ms to partitions on disk.

    It reads them as ``expire_ms``, ``expire_bytes`` and ``close_ms`` of the settings.
    """

    def __init__(
        self, lock: threading.Lock, partitions: PartitionMap, segment_changes: SegmentChanges
    ) -> None:
        self._lock = lock
        self._partitions = partitions
        self._segment_changes = segment_changes

    def apply(self, partition: DiskPartition, now_ms: int) -> None:
        """Begin new segments, and delete old ones, according to the partition's settings."""
        settings = partition.settings
        with self._lock:
            if self._partitions.get(partition.id) is not partition or not partition.segments:
                return
            active = partition.segments[-1]
            limit = settings.close_ms
            aged = limit is not None and now_ms - active.created_ms >= limit
            # The active segment is treated like the others when all of it is too old.
            if active.size and (aged or _too_old(active, settings, now_ms)):
                partition.roll(now_ms)
            if settings.expire_ms is None and settings.expire_bytes is None:
                return
            start = _retained_start(partition, now_ms)
            if start > partition.start:
                self._segment_changes.cut_start(partition, start)


def _retained_start(partition: DiskPartition, now_ms: int) -> int:
    """Return the start offset after old and surplus segments are deleted."""
    settings = partition.settings
    size = partition.size_bytes
    start = partition.start
    for segment in partition.segments[:-1]:
        too_old = _too_old(segment, settings, now_ms)
        size -= segment.size
        too_much = settings.expire_bytes is not None and size >= settings.expire_bytes
        # Events that no reader could see yet are kept.
        if not (too_old or too_much) or segment.next_offset > partition.tail:
            break
        start = max(start, segment.next_offset)
    return start


def _too_old(segment: Segment, settings: TopicSettings, now_ms: int) -> bool:
    if settings.expire_ms is None:
        return False
    newest_ms = segment.newest_ms if segment.newest_ms >= 0 else segment.created_ms
    return newest_ms < now_ms - settings.expire_ms
