"""How long database changes take from their commit until a table's sink has them.

How this works: Spark reports with each batch 100 quantiles of the commit times of its changes
(``planner.commit_times``), and when the batch began and how long it took. The sink has committed
when Spark's step ``addBatch`` ends, so a duration measured here is never too short, apart from the
difference between the clocks if the database is on another machine. Rows that a snapshot read are
not counted, as their commit times are unknown.
"""

from collections import deque

from mainstem.pipelines.spark.progress import Batch
from mainstem.pipelines.state.table_state import Freshness

_BATCHES = 100
"""Over how many of the last batches with changes the percentiles are."""


class FreshnessMeter:
    """Measures the freshness of one table over its last 100 batches with changes."""

    def __init__(self) -> None:
        self._batches: deque[list[tuple[int, float]]] = deque(maxlen=_BATCHES)
        self._changes: deque[int] = deque(maxlen=_BATCHES)

    def add(self, batch: Batch) -> Freshness | None:
        """Add a finished batch; return the freshness then, None if the batch had no changes."""
        parts: list[tuple[int, float]] = []
        count = 0
        for source in batch.sources.values():
            if times := source.committed_ms:
                count += source.changes
                weight = source.changes / len(times)
                parts += [(max(0, batch.stored_ms - each), weight) for each in times]
        if not parts:
            return None
        self._batches.append(parts)
        self._changes.append(count)
        known = sorted(part for each in self._batches for part in each)
        return Freshness(
            changes=sum(self._changes),
            p50_ms=_percentile(known, 0.5),
            p99_ms=_percentile(known, 0.99),
            last_ms=max(age for age, _ in parts),
            at_ms=batch.stored_ms,
        )


def _percentile(known: list[tuple[int, float]], part: float) -> int:
    """Return the first value up to which the weights sum to ``part`` of all; input is sorted."""
    left = part * sum(weight for _, weight in known)
    for value, weight in known:
        left -= weight
        if left <= 0:
            return value
    return known[-1][0]
