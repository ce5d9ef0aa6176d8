"""Thinning: frees the disk space of unneeded events, even if earlier ones are still needed.

How this works: ``Log.thin`` says which events of a partition are needed
(``segments/needed_offsets.py``). Closed segments without needed events are dropped; those with few
are rewritten with only these, so reading for this amounts to about twice the size of a segment at
most, in whatever order its events are settled. The last segment is closed early if it is large
enough and few of its events are needed. Offsets never change.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from mainstem.core.batch import read_header
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.segments.needed_offsets import Needed
from mainstem.log.segments.segment import Segment
from mainstem.log.upkeep.segment_rewrite import write_segment
from mainstem.log.upkeep.segment_swap import SegmentSwap

CLOSE_BYTES = 4 * 1024 * 1024
"""The last segment may be closed at this size, or at a quarter of its limit if that is less."""


class Thinner:
    """Drops and rewrites closed segments with few needed events."""

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        now_ms: Callable[[], int],
        segment_swap: SegmentSwap,
    ) -> None:
        self._files, self._lock, self._now_ms = files, lock, now_ms
        self._segment_swap = segment_swap

    def thin(self, partition: DiskPartition) -> None:
        """Drop the unneeded events of a partition, in segments where that frees enough space."""
        with self._lock:
            asked = partition.needed
            if asked is None or not partition.segments:
                return
            self._close_early(partition, asked)
            closed = partition.closed_segments()
            # Keeps the newest event, so that a read before the tail always finds one.
            needed = asked.and_one(partition.tail - 1)
        thinned = [each for each in closed if _is_worth_thinning(each, needed)]
        if not thinned:
            return

        def write(generation: int, added: list[Segment]) -> Sequence[Segment]:
            for segment in thinned:
                if not needed.count(segment.base, segment.next_offset):
                    continue
                fresh = partition.empty_segment(segment.base, segment.created_ms, generation)
                added.append(fresh)
                fresh.dense = False
                kept = _kept(segment, needed)
                write_segment(self._files, partition, fresh, kept, next_offset=segment.next_offset)
            return thinned

        def is_wanted() -> bool:
            # A consumer may have been moved back to earlier offsets meanwhile.
            return partition.needed is not None and needed.covers(partition.needed)

        self._segment_swap.swap(partition, write, is_wanted)

    def _close_early(self, partition: DiskPartition, needed: Needed) -> None:
        active = partition.segments[-1]
        large = active.size >= min(partition.settings.segment_bytes // 4, CLOSE_BYTES)
        if large and active.next_offset <= partition.tail and _is_worth_thinning(active, needed):
            partition.roll(self._now_ms())


def _is_worth_thinning(segment: Segment, needed: Needed) -> bool:
    """Tell whether at most half of a segment's events are needed."""
    events = segment.next_offset - segment.base
    left = needed.count(segment.base, segment.next_offset)
    return left * 2 <= events and (segment.dense or left * 2 <= segment.count_events())


def _kept(segment: Segment, needed: Needed) -> Iterator[bytes | bytearray]:
    for _, batch in segment.batches():
        kept = needed.kept(read_header(batch), batch)
        if kept is not None:
            yield kept if isinstance(kept, bytearray) else bytes(kept)
