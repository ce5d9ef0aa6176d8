"""Filter pushdown: filters on partition, offset and timestamp narrow the range to read."""

from datetime import UTC, datetime
from typing import cast

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mainstem.remote.arrow.range import Range

_FIRST, _LAST = 0, 2**63 - 1


class PushedFilters(msgspec.Struct):
    """The partitions, offsets and times that fulfil all filters pushed down so far."""

    partitions: frozenset[int] | None = None
    partition_from: int = _FIRST
    partition_to: int = _LAST
    offset_from: int = _FIRST
    offset_to: int = _LAST
    """The first offset that is not read."""
    since_ms: int | None = None

    def take(self, given: Filter) -> bool:
        """Narrow the range by a filter; return False if Spark must apply the filter too."""
        attribute = getattr(given, "attribute", None)
        if attribute == ("timestamp",):
            self._since(given)
            # Events need not be in order of time, so Spark has to apply the filter again.
            return False
        if attribute == ("partition",) and isinstance(given, In | EqualTo):
            values = given.value if isinstance(given, In) else (given.value,)
            asked = frozenset(cast("tuple[int, ...]", values))
            self.partitions = asked if self.partitions is None else self.partitions & asked
            return True
        bounds = _bounds(given)
        if bounds is None or attribute not in (("partition",), ("offset",)):
            return False
        first, end = bounds
        if attribute == ("offset",):
            self.offset_from = max(self.offset_from, first)
            self.offset_to = min(self.offset_to, end)
        else:
            self.partition_from = max(self.partition_from, first)
            self.partition_to = min(self.partition_to, end)
        return True

    def partition(self, number: int) -> bool:
        """Tell whether the filters allow any row of a partition."""
        named = self.partitions is None or number in self.partitions
        return named and self.partition_from <= number < self.partition_to

    def narrowed(self, whole: Range) -> Range:
        """Return the part of a range that the filters allow, which may be empty."""
        start = max(whole.start, self.offset_from)
        end = min(whole.end, self.offset_to)
        return Range(whole.topic, whole.partition, start, max(start, end))

    def _since(self, given: Filter) -> None:
        if not isinstance(given, EqualTo | GreaterThan | GreaterThanOrEqual):
            return
        moment = given.value
        if isinstance(moment, datetime):
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            since_ms = int(aware.timestamp() * 1000)
            self.since_ms = max(self.since_ms or 0, since_ms)


def _bounds(given: Filter) -> tuple[int, int] | None:
    """Return the range of integers that a filter allows, end exclusive; None for other filters."""
    value = getattr(given, "value", None)
    if not isinstance(value, int):
        return None
    if isinstance(given, EqualTo):
        return value, value + 1
    if isinstance(given, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(given, GreaterThan), _LAST
    if isinstance(given, LessThan | LessThanOrEqual):
        return _FIRST, value + isinstance(given, LessThanOrEqual)
    return None
