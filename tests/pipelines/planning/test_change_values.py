"""Change events in Debezium's envelope are read by the types of their columns."""

import base64
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.types import DataType, StructField, StructType

from mainstem.pipelines.planning.change_values import ChangeReader, position_of

Value = dict[str, object]
Kinds = DataType | dict[str, DataType]


MONEY, MOMENT = t.DecimalType(12, 2), t.TimestampType()


def columns(kinds: Kinds) -> StructType:
    named = kinds if isinstance(kinds, dict) else {"c": kinds}
    return StructType([StructField(name, kind) for name, kind in named.items()])


def read(kinds: Kinds, value: object, **how: object) -> tuple[Value | None, str | None]:
    reader = ChangeReader(columns(kinds), "microseconds", how.get("decimals", "precise"))  # type: ignore[arg-type]
    text, problem = reader.read(json.dumps(value).encode(), 7)
    return (json.loads(text, parse_float=Decimal) if text else None), problem


def after(kind: DataType, row: Value, **how: object) -> object:
    found, problem = read(kind, {"op": "c", "before": None, "after": row}, **how)
    assert found is not None, problem
    return found["after"]


def unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(4, "big", signed=True)).decode()


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        (MOMENT, 1_794_729_600_123_456, "2026-11-15T08:00:00.123456Z"),
        (MOMENT, "2026-11-15T08:00:00Z", "2026-11-15T08:00:00Z"),
        (t.TimestampNTZType(), 0, "1970-01-01T00:00:00"),
        (t.DateType(), -1, "1969-12-31"),
        (MONEY, unscaled(-1250), "-12.50"),
        (MONEY, {"scale": 3, "value": unscaled(1250)}, "1.250"),
        (t.ArrayType(t.DateType()), [0, None], ["1970-01-01", None]),
        (t.LongType(), 2**63 - 1, 2**63 - 1),
        (t.DoubleType(), 1.5, Decimal("1.5")),
        (t.StringType(), '{"json": 1}', '{"json": 1}'),
        (t.BooleanType(), None, None),
    ],
)
def test_values_are_read_by_the_types_of_their_columns(
    kind: DataType, given: object, wanted: object
) -> None:
    assert after(kind, {"c": given, "unknown": 1}) == {"c": wanted}


def test_decimals_may_be_text() -> None:
    assert after(MONEY, {"c": "12.50"}, decimals="string") == {"c": "12.50"}
    _, problem = read(MONEY, {"op": "c", "after": {"c": "12.50"}})
    assert "decimals='string'" in str(problem)


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("io.debezium.time.Timestamp", 1000, "1970-01-01T00:00:01Z"),
        ("io.debezium.time.MicroTimestamp", 1000, "1970-01-01T00:00:00.001000Z"),
        ("io.debezium.time.NanoTimestamp", 1000_000, "1970-01-01T00:00:00.001000Z"),
    ],
)
def test_the_schema_of_an_event_says_the_unit_of_times(name: str, given: int, wanted: str) -> None:
    schema = {"fields": [{"field": "after", "fields": [{"field": "c", "name": name}]}]}
    value = {"schema": schema, "payload": {"op": "r", "before": None, "after": {"c": given}}}

    found, _ = read(MOMENT, value)

    assert found is not None
    assert (found["op"], found["after"]) == ("read", {"c": wanted})


def test_the_schema_of_an_event_says_the_scale_of_a_decimal() -> None:
    field = {
        "field": "c",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "4"},
    }
    schema = {"fields": [{"field": "after", "fields": [field]}]}
    row = {"c": unscaled(12500)}
    found, _ = read(MONEY, {"schema": schema, "payload": {"op": "u", "after": row}})
    assert found is not None
    assert found["after"] == {"c": "1.2500"}


LOGGED: dict[str, DataType] = {
    "a": t.StringType(),
    "b": t.IntegerType(),
    "c": t.ArrayType(t.StringType()),
}


def test_values_that_were_not_logged_are_named() -> None:
    row = {"a": "__debezium_unavailable_value", "b": 1, "c": ["__debezium_unavailable_value"]}
    found, _ = read(LOGGED, {"op": "u", "after": row})
    assert found is not None
    assert found["after"] == {"a": None, "b": 1, "c": None}
    assert found["unavailable"] == ["a", "c"]


def test_positions_sort_as_the_changes_in_the_log_of_the_database() -> None:
    def binlog(file: int, pos: int, row: int) -> str:
        return position_of({"file": f"mysql-bin.{file:06}", "pos": pos, "row": row}, 0, "insert")

    assert changed({"lsn": 9}) < changed({"lsn": 10})
    # The first change after a snapshot may have its LSN.
    assert changed({"lsn": 9}) < was_read({"lsn": 10}) < changed({"lsn": 10})
    ordered = [binlog(9, 500, 0), binlog(9, 500, 1), binlog(9, 1000, 0), binlog(1_000_000, 4, 0)]
    assert ordered == sorted(ordered)
    assert position_of({}, 99, "insert") < position_of({}, 100, "insert")


def changed(source: Value, offset: int = 0) -> str:
    return position_of(source, offset, "update")


def was_read(source: Value, offset: int = 0) -> str:
    return position_of(source, offset, "read")


def committed(after_lsn: int | None, lsn: int) -> Value:
    """Return what PostgreSQL's events say of their place: the commit before, and the change."""
    before = "null" if after_lsn is None else f'"{after_lsn}"'
    return {"lsn": lsn, "sequence": f'[{before},"{lsn}"]'}


def test_changes_of_postgresql_sort_by_commits_though_transactions_write_in_turn() -> None:
    ordered = [
        was_read(committed(None, 10)),
        changed(committed(None, 50)),
        changed(committed(90, 40)),
        changed(committed(90, 41)),
        was_read(committed(None, 120)),
        changed(committed(120, 30)),
    ]
    assert ordered == sorted(ordered)
    # As positions were written before.
    assert f"{120:020}" < changed(committed(120, 30))


def test_changes_of_sqlite_sort_by_their_number_also_in_several_partitions() -> None:
    emptied = [position_of({"seq": 12}, offset, "truncate") for offset in (5, 900)]

    assert emptied[0] == emptied[1]
    assert changed({"seq": 11}, offset=901) < emptied[0] < was_read({"seq": 13}, offset=6)


@pytest.mark.parametrize(
    ("before", "later"),
    [
        (committed(900, 950), committed(None, 10)),
        ({"file": "bin.000009", "pos": 900, "row": 1}, {"file": "bin.000001", "pos": 4, "row": 0}),
        ({"seq": 900}, {"seq": 1}),
    ],
)
def test_what_follows_a_new_snapshot_sorts_after_what_was_before_though_positions_begin_anew(
    before: Value, later: Value
) -> None:
    def of(epoch: int, source: Value) -> Value:
        return {**source, "epoch": epoch}

    def emptied(source: Value) -> str:
        return position_of({**source, "snapshot": "true"}, 0, "truncate")

    ordered = [
        changed(before),
        emptied(of(99, later)),
        was_read(of(99, later)),
        changed(of(99, before)),
        emptied(of(100, later)),
        was_read(of(100, later)),
    ]

    assert ordered == sorted(ordered)
    assert len(set(ordered)) == len(ordered)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "not a change event"),
        ({"op": "c"}, "no op, before and after"),
        ({"op": "x", "after": None}, "no op, before and after"),
        ({"payload": 1}, "its payload is no object"),
        ({"op": "c", "after": 1}, "before or after is no object"),
        ({"op": "c", "after": {"c": 10**18}}, "is not in the years 1 to 9999"),
    ],
)
def test_what_is_no_change_event_is_bad(value: object, told: str) -> None:
    found, problem = read(MOMENT, value)
    assert found is None
    assert told in str(problem)


ANY: dict[str, DataType] = {"c": MOMENT, "d": MONEY, "e": t.DateType()}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    reader = ChangeReader(columns(ANY), "microseconds", "precise")
    text, problem = reader.read(value, 0)
    assert (text is None) != (problem is None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(JSON, JSON, JSON, st.sampled_from("crudtm"))
def test_any_envelope_is_read_or_refused(
    value: object, origin: object, extra: object, op: str
) -> None:
    row = {"c": value, "d": value, "e": value}
    found, problem = read(
        ANY, {"op": op, "before": extra, "after": row, "source": origin, "transaction": extra}
    )
    assert (found is None) != (problem is None)
