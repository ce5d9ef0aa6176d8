"""The due index: which offsets are delayed, and which is due next; about 16 bytes per event.

How this works: one bit per offset says whether it is delayed. The next due entry comes from a small
heap of the latest entries and many sorted runs. When the heap is full it becomes another run: two
arrays of 64-bit numbers, read from the front. A second heap holds the first entry of each run, so
adding and taking stay cheap for any number of entries, and runs are never merged. Entries whose bit
was cleared (published, or copied to a later offset) are skipped when they are reached.
"""

import heapq
from array import array
from collections.abc import Iterable, Iterator

from mainstem.broker.delays.records import Range

RUN_LENGTH = 4096
"""Number of entries in the heap that become a run."""
_CHUNK = 1024
"""Number of offsets whose bits are stored in one integer."""

Entry = tuple[int, int]
"""Due time and offset."""


class _Run:
    """A sorted run of entries, consumed from the front."""

    __slots__ = ("at", "dues", "offsets")

    def __init__(self, entries: Iterable[Entry]) -> None:
        dues, offsets = zip(*entries, strict=True)
        self.dues, self.offsets = array("q", dues), array("q", offsets)
        self.at = 0

    def step(self) -> bool:
        """Go to the next entry; return False at the end."""
        self.at += 1
        if self.at > RUN_LENGTH // 2 and self.at < len(self.dues):
            # Free the entries before it, since far-future entries stay in memory for long.
            del self.dues[: self.at], self.offsets[: self.at]
            self.at = 0
        return self.at < len(self.dues)


class DueIndex:
    """The delayed offsets by due time; not thread-safe."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        """Bits of the delayed offsets, by chunk, in ascending order."""
        self._count = 0
        self._latest: list[Entry] = []
        self._runs: dict[int, _Run] = {}
        self._firsts: list[tuple[int, int, int]] = []
        """The first entry of each run, with the run's number."""
        self._next_run = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, offset: int) -> bool:
        return bool(self._bits.get(offset // _CHUNK, 0) >> offset % _CHUNK & 1)

    def add(self, offset: int, due_ms: int) -> None:
        """Mark an offset as delayed until a time."""
        chunk = offset // _CHUNK
        self._bits[chunk] = self._bits.get(chunk, 0) | 1 << offset % _CHUNK
        self._count += 1
        self._push((due_ms, offset))

    def remove(self, ranges: Iterable[Range]) -> None:
        """Mark offsets as no longer delayed; offsets that are not delayed are ignored."""
        for first, last in ranges:
            for chunk in range(first // _CHUNK, last // _CHUNK + 1):
                start = chunk * _CHUNK
                low, high = max(first - start, 0), min(last - start, _CHUNK - 1)
                was = self._bits.get(chunk, 0)
                gone = was & ((1 << high + 1) - (1 << low))
                self._count -= gone.bit_count()
                if was == gone:
                    self._bits.pop(chunk, None)
                else:
                    self._bits[chunk] = was ^ gone

    def next_due_ms(self) -> int | None:
        """Return the earliest due time, None if nothing is delayed."""
        entry = self._first()
        return None if entry is None else entry[0]

    def take(self, now_ms: int, most: int) -> list[Entry]:
        """Return entries that are due, earliest first; they stay delayed until ``remove``.

        The caller passes those that it does not remove to ``put_back``.
        """
        taken: list[Entry] = []
        while len(taken) < most:
            entry = self._first()
            if entry is None or entry[0] > now_ms:
                break
            self._drop_first()
            taken.append(entry)
        return taken

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Undo ``take`` for entries that were not removed."""
        for entry in entries:
            self._push(entry)

    def offsets(self) -> Iterator[int]:
        """Return the delayed offsets, in ascending order."""
        for chunk, bits in list(self._bits.items()):
            left = bits
            while left:
                low = left & -left
                yield chunk * _CHUNK + low.bit_length() - 1
                left ^= low

    def entries(self) -> list[Entry]:
        """Return all delayed entries, sorted, without those that ``take`` has returned."""
        found = set(self._latest)
        for run in self._runs.values():
            found.update(zip(run.dues[run.at :], run.offsets[run.at :], strict=True))
        return sorted(entry for entry in found if entry[1] in self)

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._latest, entry)
        if len(self._latest) > RUN_LENGTH:
            self._latest.sort()
            self._runs[self._next_run] = _Run(self._latest)
            heapq.heappush(self._firsts, (*self._latest[0], self._next_run))
            self._next_run += 1
            self._latest = []

    def _first(self) -> Entry | None:
        """Return the earliest entry that is still delayed, and drop those before it."""
        while (entry := self._earliest()) is not None:
            if entry[1] in self:
                return entry
            self._drop_first()
        return None

    def _earliest(self) -> Entry | None:
        if self._firsts and (not self._latest or self._firsts[0][:2] < self._latest[0]):
            return self._firsts[0][:2]
        return self._latest[0] if self._latest else None

    def _drop_first(self) -> None:
        if not self._firsts or (self._latest and self._latest[0] <= self._firsts[0][:2]):
            heapq.heappop(self._latest)
            return
        number = self._firsts[0][2]
        run = self._runs[number]
        if run.step():
            heapq.heapreplace(self._firsts, (run.dues[run.at], run.offsets[run.at], number))
        else:
            heapq.heappop(self._firsts)
            del self._runs[number]
