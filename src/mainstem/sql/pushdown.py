"""Finds which offsets and times a scan's filter can need, so that no others are read.

How this works: DuckDB passes a scan its filter as an Arrow expression, which cannot be taken apart.
But Arrow can tell whether an expression may be true for rows of which some guarantee is given: that
is how it skips files of a partitioned dataset. So Arrow is asked about imaginary files, with ranges
of offsets as their guarantees, and a binary search finds the first and the last offset that the
filter may need.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from mainstem.sql.worker_messages import Span

PARTITION, OFFSET, TIMESTAMP = "_partition", "_offset", "_timestamp"
_TIME = pa.timestamp("us", tz="UTC")
_LAST_US = 2**62
_files, _parquet = LocalFileSystem(), ds.ParquetFileFormat()


def needed(spans: list[Span], condition: ds.Expression | None, schema: pa.Schema) -> list[Span]:
    """Return the parts of the offset ranges in which the condition may be true for an event."""
    if condition is None:
        return spans
    named = str(condition)
    if OFFSET not in named and PARTITION not in named:
        return spans
    found = (_narrowed(each, condition, schema) for each in spans)
    return [each for each in found if each.start < each.end]


def from_ms(condition: ds.Expression | None, schema: pa.Schema) -> int | None:
    """Return a time in ms before which the condition is false for all events; None if unknown."""
    if condition is None or TIMESTAMP not in str(condition):
        return None
    time = ds.field(TIMESTAMP)
    if _possible(condition, time.is_null(), schema):
        return None
    first = _last(
        0, _LAST_US, lambda us: not _possible(condition, time <= pa.scalar(us - 1, _TIME), schema)
    )
    return first // 1000 or None


def _narrowed(span: Span, condition: ds.Expression, schema: pa.Schema) -> Span:
    offset = ds.field(OFFSET)
    here = ds.field(PARTITION) == span.partition

    def none_in(start: int, end: int) -> bool:
        if start >= end:
            return True
        return not _possible(condition, here & (offset >= start) & (offset <= end - 1), schema)

    if none_in(span.start, span.end):
        return Span(span.partition, span.end, span.end)
    start = _last(span.start, span.end, lambda at: none_in(span.start, at))
    end = span.end - _last(0, span.end - start, lambda count: none_in(span.end - count, span.end))
    return Span(span.partition, start, end)


def _last(low: int, high: int, true: Callable[[int], bool]) -> int:
    """Return the last number from ``low`` to ``high`` for which ``true`` holds.

    It must hold for all numbers from ``low`` to that one, and for none after.
    """
    while low < high:
        middle = (low + high + 1) // 2
        if true(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _possible(condition: ds.Expression, guarantee: ds.Expression, schema: pa.Schema) -> bool:
    fragment = _parquet.make_fragment("-", filesystem=_files, partition_expression=guarantee)
    dataset = ds.FileSystemDataset([fragment], schema, _parquet, _files)
    return next(iter(dataset.get_fragments(condition)), None) is not None
