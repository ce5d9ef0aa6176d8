"""Aggregates of the values within an interval: count, rate, mean, percentiles.

How this works: a series is a type, a name and tags. Counters, timers and sets start empty in every
interval; a gauge keeps its value. Of a timer with very many values a random sample is kept
(reservoir sampling): its percentiles are then estimates, and all else is exact. Values of series
beyond the limit are not aggregated, but counted.
"""

import random
from collections.abc import Iterator, Sequence

import msgspec

from mainstem.heads.statsd.codec import Metric, Type

MAX_VALUES = 10_000
"""Maximum values of a timer, and members of a set, kept in one interval."""

OWN = "mainstem.statsd."
"""Prefix of the names of the head's own counters, such as the number of lost packets."""

Series = tuple[Type, str, tuple[str, ...]]


class Aggregate(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series in one interval, aggregated: the value of an event in the aggregates topic."""

    name: str
    type: Type
    start_ms: int
    end_ms: int
    tags: tuple[str, ...] = ()
    count: float | None = None
    """Of a counter, the sum; of a timer, the number of values (both corrected for sample rates); of
    a set, the number of members.
    """
    rate: float | None = None
    """``count`` per second."""
    value: float | None = None
    """The last value of a gauge."""
    sum: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    percentiles: dict[str, float] | None = None


class _Timer:
    """The values of one timer in one interval."""

    __slots__ = ("count", "max", "min", "sum", "taken", "values")

    def __init__(self) -> None:
        self.count = self.sum = 0.0
        self.min, self.max = float("inf"), float("-inf")
        self.values: list[float] = []
        self.taken = 0

    def add(self, value: float, rate: float, chance: random.Random) -> None:
        self.count += 1 / rate
        self.sum += value
        self.min, self.max = min(self.min, value), max(self.max, value)
        self.taken += 1
        if len(self.values) < MAX_VALUES:
            self.values.append(value)
        elif (place := chance.randrange(self.taken)) < MAX_VALUES:
            self.values[place] = value


class Aggregates:
    """Aggregates the values of the current interval, by series."""

    def __init__(
        self, now_ms: int, percentiles: Sequence[float], max_series: int, chance: random.Random
    ) -> None:
        self._began_ms = now_ms
        self._percentiles = percentiles
        self._max_series = max_series
        self._chance = chance
        self._known: set[Series] = set()
        self._counters: dict[Series, float] = {}
        self._gauges: dict[Series, float] = {}
        self._timers: dict[Series, _Timer] = {}
        self._sets: dict[Series, set[str]] = {}
        self.left_out = 0
        """Number of values not aggregated, because there were too many series or members of a set.
        """

    def __len__(self) -> int:
        return len(self._known)

    def add(self, metric: Metric) -> None:
        """Add a value to its series."""
        series = (metric.type, metric.name, metric.tags)
        if series not in self._known:
            if len(self._known) >= self._max_series:
                self.left_out += 1
                return
            self._known.add(series)
        if isinstance(metric.value, str):
            self._add_member(series, metric.value)
        elif metric.type == "counter":
            self._counters[series] = self._counters.get(series, 0.0) + metric.value / metric.rate
        elif metric.type == "gauge":
            before = self._gauges.get(series, 0.0) if metric.relative else 0.0
            self._gauges[series] = before + metric.value
        else:
            timer = self._timers.get(series)
            if timer is None:
                timer = self._timers[series] = _Timer()
            timer.add(metric.value, metric.rate, self._chance)

    def _add_member(self, series: Series, member: str) -> None:
        members = self._sets.setdefault(series, set())
        if len(members) < MAX_VALUES or member in members:
            members.add(member)
        else:
            self.left_out += 1

    def flush(self, now_ms: int) -> list[Aggregate]:
        """Return the aggregates of the interval that ends now, and begin the next interval."""
        found = list(self._all(now_ms))
        self._began_ms = now_ms
        self._counters, self._timers, self._sets = {}, {}, {}
        self._known = set(self._gauges)
        return found

    def _all(self, now_ms: int) -> Iterator[Aggregate]:
        seconds = max(1, now_ms - self._began_ms) / 1000
        span = (self._began_ms, now_ms)
        for (kind, name, tags), count in self._counters.items():
            yield Aggregate(name, kind, *span, tags, count=count, rate=count / seconds)
        for (kind, name, tags), value in self._gauges.items():
            yield Aggregate(name, kind, *span, tags, value=value)
        for (kind, name, tags), members in self._sets.items():
            yield Aggregate(name, kind, *span, tags, count=len(members))
        for (kind, name, tags), timer in self._timers.items():
            values = sorted(timer.values)
            yield Aggregate(
                name,
                kind,
                *span,
                tags,
                count=timer.count,
                rate=timer.count / seconds,
                sum=timer.sum,
                mean=timer.sum / timer.taken,
                min=timer.min,
                max=timer.max,
                percentiles={
                    f"p{share:g}": _percentile(values, share) for share in self._percentiles
                },
            )


def _percentile(values: Sequence[float], share: float) -> float:
    """Return the value at a percentile (``share``), by the nearest-rank method."""
    rank = -(-len(values) * share // 100)
    return values[max(0, int(rank) - 1)]
