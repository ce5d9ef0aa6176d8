"""Plans micro-batches: which offsets a batch reads, and how they are split into tasks.

How this works: if more is waiting than fits into a batch, reading each partition at its own speed
would let one get ahead of the others and advance the watermark, so that events of the others would
be late. So a batch ends at the same timestamp in all partitions: in each before the first event
with that timestamp or a later one. The planner searches for a timestamp that makes the batch nearly
as large as allowed, by asking the broker for offsets by timestamp (ListOffsets). A partition whose
events are out of order never gets ahead, as only events before the first one of a later timestamp
are read.
"""

from collections.abc import Callable, Iterable, Mapping

from mainstem.remote.admin import Place
from mainstem.remote.arrow.range import Range

Positions = Mapping[Place, int]
AtTime = Callable[[int], Positions]
"""Returns for every partition the first offset at or after a time (in ms), or its end."""

_FULL_ENOUGH, _AIM = 0.8, 0.92
_FIRST_STEP_MS = 1000


class Admission:
    """Chooses the end offsets of one batch after another.

    Offsets by timestamp are expensive, as the broker must read events. So the search for the end of
    a batch begins at the end of the last one; while events are spread evenly over time, it takes
    one request for each batch.
    """

    def __init__(self) -> None:
        self._until_ms = 0
        self._ends: Positions = {}
        self._step_ms = _FIRST_STEP_MS

    def by_time(
        self, start: Positions, tails: Positions, max_rows: int, at_time: AtTime, now_ms: int
    ) -> dict[Place, int]:
        """Return end offsets at one timestamp in all partitions, for at most ``max_rows`` rows.

        If one timestamp has more events than that, the partitions are read up to their share of it.
        """

        def ends(moment_ms: int) -> dict[Place, int]:
            found = at_time(moment_ms)
            return {
                place: max(start[place], min(tail, found.get(place, tail)))
                for place, tail in tails.items()
            }

        if rows_between(start, tails) <= max_rows:
            return dict(tails)
        low, best, high, over = self._around(start, tails, max_rows, ends, now_ms)
        halve = False
        while high - low > 1 and rows_between(start, best) < max_rows * _FULL_ENOUGH:
            few, many = rows_between(start, best), rows_between(start, over)
            # Events are usually spread evenly; where they are not, a binary search finds the end.
            part = 0.5 if halve else (max_rows * _AIM - few) / max(1, many - few)
            middle = min(max(low + int((high - low) * part), low + 1), high - 1)
            halve = not halve
            found = ends(middle)
            if rows_between(start, found) <= max_rows:
                low, best = middle, found
            else:
                high, over = middle, found
        rows = rows_between(start, best)
        if self._until_ms and rows:
            self._step_ms = max(1, int((low - self._until_ms) * max_rows * _AIM / rows))
        self._until_ms, self._ends = low, best
        if rows:
            return dict(best)
        # More events in one millisecond than a batch may hold, or only timestamps in the future.
        return evenly(start, over, max_rows)

    def _around(
        self, start: Positions, tails: Positions, max_rows: int, ends: AtTime, now_ms: int
    ) -> tuple[int, Positions, int, Positions]:
        """Return two timestamps and the end offsets there: within ``max_rows``, and beyond."""
        last, low = now_ms + 1, self._until_ms
        best = start if start == self._ends else ends(low) if low else tails
        if rows_between(start, best) > max_rows:
            return _backward(start, tails, max_rows, ends, last)
        step = self._step_ms
        while rows_between(start, best) < max_rows * _FULL_ENOUGH and low < last:
            high = min(low + step, last)
            found = ends(high)
            if rows_between(start, found) > max_rows:
                return low, best, high, found
            low, best, step = high, found, step * 2
        return low, best, low, tails


def _backward(
    start: Positions, tails: Positions, max_rows: int, ends: AtTime, last: int
) -> tuple[int, Positions, int, Positions]:
    """Search backward from ``last`` ms for a timestamp up to which ``max_rows`` rows or fewer wait.

    Returns that timestamp and a later one, each with its end offsets; see ``_around``.
    """
    over = ends(last)
    if rows_between(start, over) <= max_rows:
        return last, over, last, tails
    high, step = last, _FIRST_STEP_MS
    while step < last:
        low = last - step
        best = ends(low)
        if rows_between(start, best) <= max_rows:
            return low, best, high, over
        high, over, step = low, best, step * 4
    return 0, start, high, over


def evenly(start: Positions, tails: Positions, max_rows: int) -> dict[Place, int]:
    """Return end offsets for at most ``max_rows`` rows, shared in proportion to the backlogs."""
    waiting = rows_between(start, tails)
    if waiting <= max_rows:
        return dict(tails)
    ends, left = {}, max_rows
    for place, tail in sorted(tails.items(), key=lambda each: each[1] - start[each[0]]):
        rows = tail - start[place]
        share = min(left, max(1, rows * max_rows // waiting)) if rows > 0 else min(rows, 0)
        ends[place] = start[place] + share
        left -= max(share, 0)
    return ends


def rows_between(start: Positions, ends: Positions) -> int:
    """Return the number of offsets in a range: at least as many as there are events."""
    return sum(max(0, end - start[place]) for place, end in ends.items())


def split(
    ranges: Iterable[Range], *, min_partitions: int = 1, max_rows: int | None = None
) -> list[Range]:
    """Split ranges into at least ``min_partitions`` tasks, of at most ``max_rows`` rows each."""
    whole = [each for each in ranges if each.end > each.start]
    total = sum(each.end - each.start for each in whole)
    most = max_rows or max(total, 1)
    if min_partitions > len(whole):
        most = min(most, max(1, total // min_partitions))
    return [piece for each in whole for piece in _pieces(each, most)]


def _pieces(whole: Range, most: int) -> Iterable[Range]:
    rows = whole.end - whole.start
    count = -(-rows // most)
    for index in range(count):
        yield Range(
            whole.topic,
            whole.partition,
            whole.start + rows * index // count,
            whole.start + rows * (index + 1) // count,
        )
