"""Compaction: keep the latest event of each key, and drop tombstones after a while.

How this works: the keys of segments not yet compacted are read into a map from key to latest
offset, as far as memory allows; then all segments up to there are written again without the events
that the map shows to be outdated. Offsets never change, a batch keeps its offset range, and the
active segment is never touched. Several small segments become one. ``offset_map`` decides what is
kept of a batch. The last batch of an idempotent producer is kept for a while even when it is
empty, since it holds the producer's last sequence number.
"""

import threading
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from mainstem.core.batch import read_header
from mainstem.core.errors import MainstemError
from mainstem.core.records import emptied
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit.checkpoint import Checkpoints
from mainstem.log.disk_partition import DiskPartition, PartitionRecord
from mainstem.log.files.files import Files
from mainstem.log.partition_map import PartitionMap
from mainstem.log.segments.offset_map import OffsetMap
from mainstem.log.segments.segment import Segment
from mainstem.log.upkeep.segment_changes import SegmentChanges
from mainstem.log.upkeep.segment_rewrite import write_segment

MAX_KEYS = 1_000_000
EMPTY_MS = 3_600_000
"""How long a batch without events is kept: by then its producer is known from a snapshot.

Snapshots of producers are written every minute; the rest is for those that are late.
"""


def old_enough(sealed: Sequence[Segment], settings: TopicSettings, now_ms: int) -> list[Segment]:
    """Return the leading segments whose events are all old enough to be compacted."""
    if not settings.compact_after_ms:
        return list(sealed)
    before = now_ms - settings.compact_after_ms
    return list(takewhile(lambda segment: segment.newest_ms <= before, sealed))


def worth_compacting(sealed: Sequence[Segment], settings: TopicSettings, now_ms: int) -> bool:
    """Tell whether enough sealed data is uncompacted, or some of it for too long."""
    total = sum(segment.size for segment in sealed)
    dense = [segment for segment in sealed if segment.dense]
    dirty = sum(segment.size for segment in dense)
    within = settings.compact_within_ms
    overdue = within is not None and any(now_ms - each.created_ms >= within for each in dense)
    return dirty > 0 and (overdue or dirty >= total * settings.compact_share)


def compact(
    files: Files,
    partition: DiskPartition,
    sealed: Sequence[Segment],
    now_ms: int,
    generation: int,
    added: list[Segment],
) -> list[Segment]:
    """Rewrite sealed segments into ``added``; return the segments that are replaced."""
    offset_map = OffsetMap(now_ms - partition.settings.tombstone_ms)
    last_batches, covered = _survey(sealed, offset_map, MAX_KEYS)
    for run in _runs(covered, partition.settings.segment_bytes):
        fresh = partition.empty_segment(run[0].base, run[0].created_ms, generation)
        added.append(fresh)
        kept = _kept(run, offset_map, last_batches, now_ms)
        fresh.dense = False
        write_segment(files, partition, fresh, kept, next_offset=run[-1].next_offset)
    return covered


class _Survey(NamedTuple):
    """The result of reading segments that are compacted together."""

    last_batches: set[int]
    """The base offset of the last batch of each idempotent producer."""
    covered: list[Segment]
    """The segments that the survey and the offset map cover."""


def _survey(sealed: Sequence[Segment], offset_map: OffsetMap, max_keys: int) -> _Survey:
    last: dict[int, int] = {}
    covered: list[Segment] = []
    for segment in sealed:
        if segment.dense and len(offset_map) >= max_keys:
            break
        for _, batch in segment.batches():
            header = read_header(batch)
            if header.producer_id >= 0:
                last[header.producer_id] = header.base_offset
            if segment.dense:
                offset_map.add(header, batch)
        covered.append(segment)
    return _Survey(set(last.values()), covered)


def _kept(
    run: Sequence[Segment], offset_map: OffsetMap, last_batches: set[int], now_ms: int
) -> Iterator[bytes | bytearray]:
    for segment in run:
        for _, batch in segment.batches():
            header = read_header(batch)
            kept = offset_map.kept(header, batch)
            if kept is None and header.base_offset in last_batches:
                # After a restart this batch tells the producer's last sequence number.
                if header.count:
                    kept = emptied(batch, now_ms)
                elif now_ms - header.base_timestamp < EMPTY_MS:
                    kept = batch
            if kept is not None:
                yield kept if isinstance(kept, bytearray) else bytes(kept)


def _runs(segments: Sequence[Segment], max_bytes: int) -> list[list[Segment]]:
    """Split segments into runs, each at most as large as one segment."""
    runs: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if runs and size + segment.size <= max_bytes:
            runs[-1].append(segment)
        else:
            runs.append([segment])
            size = 0
        size += segment.size
    return runs


class Compactor:
    """Compacts partitions on disk, and replaces the old segments."""

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        partitions: PartitionMap,
        checkpoints: Checkpoints,
        segment_changes: SegmentChanges,
    ) -> None:
        self._files, self._lock, self._partitions = files, lock, partitions
        self._checkpoints, self._segment_changes = checkpoints, segment_changes

    def compact(self, partition: DiskPartition, now_ms: int) -> None:
        """Compact a partition if enough of it is dirty."""
        with self._lock:
            # Batches beyond the tail may not be written yet.
            sealed = [
                each for each in partition.segments[:-1] if each.next_offset <= partition.tail
            ]
            sealed = old_enough(sealed, partition.settings, now_ms)
            if not worth_compacting(sealed, partition.settings, now_ms):
                return
            generation = partition.generation = partition.generation + 1
        added: list[Segment] = []
        try:
            removed = compact(self._files, partition, sealed, now_ms, generation, added)
            with self._checkpoints.in_progress:
                names = {partition: partition.names_made}
                durable = self._checkpoints.capture(partition, names)
                self._checkpoints.sync_names(names)
                with self._lock:
                    if self._is_unchanged(partition, durable) and set(removed) <= set(
                        partition.segments
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
            # If the note was already made, the new segments are in use.
            in_use = set(partition.segments)
            self._segment_changes.discard([each for each in added if each not in in_use])
            raise
        # The partition was deleted or truncated meanwhile.
        self._segment_changes.discard(added)

    def _is_unchanged(self, partition: DiskPartition, record: PartitionRecord) -> bool:
        """Tell whether a partition still exists and was not truncated since."""
        return self._partitions.get(partition.id) is partition and record.epochs == tuple(
            partition.epochs
        )


def _recovery_point(partition: DiskPartition, durable: PartitionRecord) -> PartitionRecord:
    """Return the current segments with the sizes that were last made durable."""
    before = {(each.base, each.generation): each for each in durable.segments}
    now = [each.record() for each in partition.segments if each.synced_size > 0]
    segments = tuple(before.get((each.base, each.generation), each) for each in now)
    return msgspec.structs.replace(
        durable, start=partition.start, generation=partition.generation, segments=segments
    )
