"""Compaction: keeps the latest event of each key, and drops tombstones after a while.

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

from mainstem.core.batch import read_header
from mainstem.core.records import emptied
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.segments.offset_map import OffsetMap
from mainstem.log.segments.segment import Segment
from mainstem.log.upkeep.segment_rewrite import write_segment
from mainstem.log.upkeep.segment_swap import SegmentSwap

MAX_KEYS = 1_000_000
EMPTY_MS = 3_600_000
"""How many ms an empty batch is kept, until a snapshot has its producer's sequence number.

Such snapshots are stored every minute; the additional time is for late ones.
"""


def old_enough(sealed: Sequence[Segment], settings: TopicSettings, now_ms: int) -> list[Segment]:
    """Return the leading segments whose events are all old enough to be compacted."""
    if not settings.compact_after_ms:
        return list(sealed)
    before = now_ms - settings.compact_after_ms
    return list(takewhile(lambda segment: segment.newest_ms <= before, sealed))


def worth_compacting(sealed: Sequence[Segment], settings: TopicSettings, now_ms: int) -> bool:
    """Tell whether enough data of closed segments is uncompacted, or some for too long."""
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
    """Rewrite closed segments; adds the new ones to ``added``, returns those to be replaced."""
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
    """What was found by reading the segments that are compacted together."""

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
    """Group consecutive segments so that each group fits into one new segment."""
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

    def __init__(self, files: Files, lock: threading.Lock, segment_swap: SegmentSwap) -> None:
        self._files, self._lock, self._segment_swap = files, lock, segment_swap

    def compact(self, partition: DiskPartition, now_ms: int) -> None:
        """Compact a partition if enough of its data is uncompacted."""
        with self._lock:
            sealed = old_enough(partition.closed_segments(), partition.settings, now_ms)
            if not worth_compacting(sealed, partition.settings, now_ms):
                return

        def write(generation: int, added: list[Segment]) -> list[Segment]:
            return compact(self._files, partition, sealed, now_ms, generation, added)

        self._segment_swap.swap(partition, write)
