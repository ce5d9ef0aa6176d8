"""The events of a partition that are still needed; thinning keeps only these of a batch."""

from bisect import bisect_left
from collections.abc import Iterable

from mainstem.core.batch import BatchHeader, Buffer
from mainstem.core.errors import CorruptBatch
from mainstem.core.records import retain


class Needed:
    """The needed events of a partition: all from ``before`` on, and some single earlier ones."""

    def __init__(self, before: int, offsets: Iterable[int]) -> None:
        self.before = before
        self._offsets = sorted({offset for offset in offsets if offset < before})

    def count(self, first: int, end: int) -> int:
        """Return the number of needed offsets from ``first`` to before ``end``."""
        single = bisect_left(self._offsets, end) - bisect_left(self._offsets, first)
        return single + max(0, end - max(first, self.before))

    def and_one(self, offset: int) -> "Needed":
        """Return a copy with one more needed offset."""
        return Needed(self.before, (*self._offsets, offset))

    def covers(self, other: "Needed") -> bool:
        """Tell whether all events needed by ``other`` are needed here, too."""
        if self.before > other.before:
            return False
        extra = (offset for offset in other._offsets if offset < self.before)
        return all(self.count(offset, offset + 1) for offset in extra)

    def kept(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """Return the batch with only its needed events, None if none is needed.

        A control batch, or one whose records cannot be parsed, is kept whole or not at all.
        """
        first, end = header.base_offset, header.last_offset + 1
        needed = self.count(first, end)
        if not needed:
            return None
        if needed == end - first:
            return batch
        try:
            return retain(batch, lambda offset, *_: self.count(offset, offset + 1) > 0)
        except CorruptBatch:
            return batch
