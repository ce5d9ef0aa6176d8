"""Filters narrow what is read, and never leave out a row for which they are true."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt

import pyarrow as pa
import pyarrow.dataset as ds
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.sql.events import schema
from mainstem.sql.pushdown import from_ms, needed
from mainstem.sql.worker_messages import Span

SCHEMA = schema(frozenset())
OFFSET, PARTITION, TIME = (ds.field(name) for name in ("_offset", "_partition", "_timestamp"))
SPANS = [Span(0, 0, 100), Span(1, 50, 1000), Span(2, 10, 10)]


def moment(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1000, pa.timestamp("us", tz="UTC"))


def test_without_a_filter_everything_is_read() -> None:
    assert needed(SPANS, None, SCHEMA) == SPANS
    assert needed(SPANS, ds.field("_key") == b"x", SCHEMA) == SPANS
    assert from_ms(None, SCHEMA) is None


def test_offsets_and_partitions_narrow_what_is_read() -> None:
    condition = (OFFSET >= 60) & (OFFSET < 70) & (PARTITION == 1)

    assert needed(SPANS, condition, SCHEMA) == [Span(1, 60, 70)]
    assert needed(SPANS, OFFSET > 998, SCHEMA) == [Span(1, 999, 1000)]
    assert needed(SPANS, OFFSET == 7, SCHEMA) == [Span(0, 7, 8)]
    assert needed(SPANS, (OFFSET == 7) | (OFFSET == 90), SCHEMA) == [
        Span(0, 7, 91),
        Span(1, 90, 91),
    ]
    assert needed(SPANS, PARTITION.isin([0, 2]), SCHEMA) == [Span(0, 0, 100)]
    assert needed(SPANS, OFFSET > 5000, SCHEMA) == []


def test_what_is_true_of_other_columns_may_be_anywhere() -> None:
    assert needed(SPANS, (OFFSET == 7) | (ds.field("_key") == b"x"), SCHEMA) == SPANS[:2]
    assert from_ms((moment(5) < TIME) | (OFFSET == 7), SCHEMA) is None


def test_a_time_says_where_to_begin() -> None:
    assert from_ms(moment(1_700_000_000_123) <= TIME, SCHEMA) == 1_700_000_000_123
    assert from_ms((moment(5_000) < TIME) & (OFFSET > 3), SCHEMA) == 5_000
    assert from_ms(moment(5_000) > TIME, SCHEMA) is None
    assert from_ms((moment(5_000) <= TIME) | TIME.is_null(), SCHEMA) is None


SIGNS: dict[str, Callable[[ds.Expression, int], ds.Expression]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "==": eq,
}
LEAVES: st.SearchStrategy[object] = st.one_of(
    st.tuples(st.sampled_from(sorted(SIGNS)), st.integers(-2, 22)),
    st.tuples(st.just("in"), st.lists(st.integers(0, 20), min_size=1, max_size=4)),
    st.tuples(st.just("partition"), st.integers(0, 2)),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner),
    max_leaves=6,
)


def expression(tree: object) -> ds.Expression:
    match tree:
        case ("and", one, other):
            return expression(one) & expression(other)
        case ("or", one, other):
            return expression(one) | expression(other)
        case ("not", one, _):
            return ~expression(one)
        case ("in", values):
            return OFFSET.isin(pa.array(values, pa.int64()))
        case ("partition", int(number)):
            return PARTITION == number  # noqa: SIM300 - it makes an expression
        case (str(sign), int(number)):
            found: ds.Expression = SIGNS[sign](OFFSET, number)
            return found
    raise AssertionError(tree)


@settings(deadline=None)
@given(tree=CONDITIONS)
def test_no_row_that_is_wanted_is_left_out(tree: object) -> None:
    spans = [Span(0, 0, 20), Span(1, 5, 15)]
    there = [(each.partition, at) for each in spans for at in range(each.start, each.end)]
    rows = pa.table(
        {
            "_partition": pa.array([number for number, _ in there], pa.int32()),
            "_offset": pa.array([offset for _, offset in there], pa.int64()),
        }
    )
    condition = expression(tree)

    found = needed(spans, condition, SCHEMA)

    wanted = rows.filter(condition).to_pylist()
    assert all(
        any(
            span.partition == row["_partition"] and span.start <= row["_offset"] < span.end
            for span in found
        )
        for row in wanted
    )
