"""A histogram with fixed buckets, as in Prometheus."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts values in buckets, not cumulatively; the last bucket holds values above all bounds.

    Only one thread may add at a time.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        """Number of values in each bucket; the last bucket holds values above all bounds."""
        self.total = 0.0
        """The sum of all values added."""

    def add(self, value: float) -> None:
        """Add a value to the count of its bucket, and to the sum."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
