"""Aggregates of the values within an interval: count, rate, mean, percentiles.

How this works: a series is a type, a name and tags. Counters, timers and sets start empty in every
interval; a gauge keeps its value. Of a timer with very many values a random sample is kept
(reservoir sampling): its percentiles are then estimates, and all else is exact.

Values of series beyond the limits are not aggregated, but counted. The memory of series is
estimated. At the end of an interval its series are returned one by one, and the memory of each is
free only then; so the limit applies to old and new ones together.
"""

import random
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from mainstem.heads.statsd.codec import Metric, Type

MAX_VALUES = 10_000
"""Maximum values of a timer, and members of a set, kept in one interval."""

SERIES_BYTES = 260
TIMER_BYTES = 190
SET_BYTES = 100
VALUE_BYTES = 9
MEMBER_BYTES = 110
"""Measured memory of a timer, a set, a value and a set's member, without the text of names, tags
and members.
"""

REASONS = ("max_series", "max_bytes", "max_members")
"""Why a value is not aggregated."""

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
        self.values = array("d")
        self.taken = 0

    def add(self, value: float, rate: float, chance: random.Random, *, may_grow: bool) -> bool:
        """Add a value; return whether it took more memory."""
        self.count += 1 / rate
        self.sum += value
        self.min, self.max = min(self.min, value), max(self.max, value)
        self.taken += 1
        kept = len(self.values)
        # The kept values are a sample of all, whatever their number, so it need not grow.
        if kept == 0 or (may_grow and kept == self.taken - 1 and kept < MAX_VALUES):
            self.values.append(value)
            return True
        if (place := chance.randrange(self.taken)) < kept:
            self.values[place] = value
        return False


class Limits(msgspec.Struct, frozen=True):
    """The limits on the series of an interval."""

    max_series: int
    max_bytes: int
    gauge_idle_ms: int
    """A gauge is removed if it got no value for this time."""


class Aggregates:
    """Aggregates the values of the current interval, by series."""

    def __init__(
        self, now_ms: int, percentiles: Sequence[float], limits: Limits, chance: random.Random
    ) -> None:
        self._began_ms = now_ms
        self._percentiles = percentiles
        self._limits = limits
        self._chance = chance
        self._counters: dict[Series, float] = {}
        self._gauges: dict[Series, tuple[float, int]] = {}
        """The value of each gauge, and when the interval of its last value began."""
        self._timers: dict[Series, _Timer] = {}
        self._sets: dict[Series, set[str]] = {}
        self._bytes = self._gauge_bytes = 0
        self.left_out = Counter[str]()
        """Number of values not aggregated, by reason (``REASONS``)."""

    def __len__(self) -> int:
        return len(self._counters) + len(self._gauges) + len(self._timers) + len(self._sets)

    @property
    def estimated_bytes(self) -> int:
        """Estimated memory used by series and their values."""
        return self._bytes

    def add(self, metric: Metric) -> None:
        """Add a value to its series, unless a limit is reached."""
        series = (metric.type, metric.name, metric.tags)
        if isinstance(metric.value, str):
            self._add_member(series, metric.value)
        elif metric.type == "counter":
            count = self._counters.get(series)
            if count is None:
                if not self._has_room(_size(series)):
                    return
                count = 0.0
            self._counters[series] = count + metric.value / metric.rate
        elif metric.type == "gauge":
            gauge = self._gauges.get(series)
            if gauge is None and not self._gauge_has_room(_size(series)):
                return
            before = gauge[0] if gauge is not None and metric.relative else 0.0
            self._gauges[series] = before + metric.value, self._began_ms
        else:
            timer = self._timers.get(series)
            if timer is None:
                if not self._has_room(_size(series) + TIMER_BYTES):
                    return
                timer = self._timers[series] = _Timer()
            may_grow = self._bytes + VALUE_BYTES <= self._limits.max_bytes
            if timer.add(metric.value, metric.rate, self._chance, may_grow=may_grow):
                self._bytes += VALUE_BYTES

    def _has_room(self, size: int) -> bool:
        """Reserve memory for a new series; count its value as left out if there is none."""
        if len(self) >= self._limits.max_series:
            self.left_out["max_series"] += 1
        elif self._bytes + size > self._limits.max_bytes:
            self.left_out["max_bytes"] += 1
        else:
            self._bytes += size
            return True
        return False

    def _gauge_has_room(self, size: int) -> bool:
        # Gauges stay over intervals; they must leave room for series that begin anew.
        if self._gauge_bytes + size > self._limits.max_bytes // 2:
            self.left_out["max_bytes"] += 1
            return False
        if not self._has_room(size):
            return False
        self._gauge_bytes += size
        return True

    def _add_member(self, series: Series, member: str) -> None:
        members = self._sets.get(series)
        if members is None:
            if not self._has_room(_size(series) + SET_BYTES):
                return
            members = self._sets[series] = set()
        if member in members:
            return
        size = MEMBER_BYTES + _text_bytes(member)
        if len(members) >= MAX_VALUES:
            self.left_out["max_members"] += 1
        elif self._bytes + size > self._limits.max_bytes:
            self.left_out["max_bytes"] += 1
        else:
            members.add(member)
            self._bytes += size

    def flush(self, now_ms: int) -> Iterator[Aggregate]:
        """Begin the next interval; return the aggregates of the interval that ends now.

        Each is made, and its memory freed, only when the iterator reaches it.
        """
        span, idle_ms = (self._began_ms, now_ms), self._limits.gauge_idle_ms
        for series, (_, last_ms) in list(self._gauges.items()):
            if now_ms - last_ms > idle_ms:
                del self._gauges[series]
                self._bytes -= _size(series)
                self._gauge_bytes -= _size(series)
        gauges = [(series, value) for series, (value, _) in self._gauges.items()]
        ended = self._counters, gauges, self._sets, self._timers
        self._began_ms = now_ms
        self._counters, self._timers, self._sets = {}, {}, {}
        return self._all(span, *ended)

    def _all(
        self,
        span: tuple[int, int],
        counters: dict[Series, float],
        gauges: list[tuple[Series, float]],
        sets: dict[Series, set[str]],
        timers: dict[Series, _Timer],
    ) -> Iterator[Aggregate]:
        seconds = max(1, span[1] - span[0]) / 1000
        for series in list(counters):
            kind, name, tags = series
            count = counters.pop(series)
            self._bytes -= _size(series)
            yield Aggregate(name, kind, *span, tags, count=count, rate=count / seconds)
        for (kind, name, tags), value in gauges:
            yield Aggregate(name, kind, *span, tags, value=value)
        for series in list(sets):
            kind, name, tags = series
            members = sets.pop(series)
            text = sum(map(_text_bytes, members))
            self._bytes -= _size(series) + SET_BYTES + MEMBER_BYTES * len(members) + text
            yield Aggregate(name, kind, *span, tags, count=len(members))
        for series in list(timers):
            timer = timers.pop(series)
            self._bytes -= _size(series) + TIMER_BYTES + VALUE_BYTES * len(timer.values)
            yield self._timed(span, series, timer)

    def _timed(self, span: tuple[int, int], series: Series, timer: _Timer) -> Aggregate:
        kind, name, tags = series
        values = sorted(timer.values)
        return Aggregate(
            name,
            kind,
            *span,
            tags,
            count=timer.count,
            rate=timer.count / (max(1, span[1] - span[0]) / 1000),
            sum=timer.sum,
            mean=timer.sum / timer.taken,
            min=timer.min,
            max=timer.max,
            percentiles={f"p{share:g}": _percentile(values, share) for share in self._percentiles},
        )


def _size(series: Series) -> int:
    _, name, tags = series
    text = _text_bytes(name) + sum(60 + _text_bytes(each) for each in tags)
    return SERIES_BYTES + text


def _text_bytes(text: str) -> int:
    # Python takes up to four bytes for each character of a text that is not ASCII.
    return len(text) if text.isascii() else 4 * len(text)


def _percentile(values: Sequence[float], share: float) -> float:
    """Return the value at a percentile (``share``), by the nearest-rank method."""
    rank = -(-len(values) * share // 100)
    return values[max(0, int(rank) - 1)]
