"""A table made from a database table's changes equals it, in whatever order changes come."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from tests.in_process_server import serving
from tests.pipelines.running.database_changes import SCHEMA, ChangingTable
from tests.pipelines.sample_events import bounded, forget_last_commit

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.definitions import change_queries
from mainstem.pipelines.errors import PipelineFailed
from mainstem.pipelines.running import batch_writer
from mainstem.pipelines.running.truncation import MirrorRows, without_truncated
from mainstem.pipelines.sinks.port import CHANGED_AT, TRUNCATED

SHOP = f"""
    from mainstem import pipelines as p

    CHANGES = p.changes("shop.orders", schema="{SCHEMA}")
    now = p.apply_changes(CHANGES, key="id", sink=p.delta("t/now"))
    rows = p.apply_changes(CHANGES, key="id", sink=p.sqlite("t/base.db", "orders"))
    mirror = p.apply_changes(CHANGES, key="id", sink=p.postgres("DSN", "orders"))
    cached = p.apply_changes(CHANGES, key="id", sink=p.redis("REDIS", "orders"))
    index = p.apply_changes(CHANGES, key="id", sink=p.search("t/index", text="name"))
    history = p.apply_changes(CHANGES, key="id", sink=p.delta("t/history"), scd=2)
"""
Publish = Callable[[list[mainstem.Event]], None]


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    with serving(None) as at, mainstem.connect(at) as stem:
        stem.topics.create("shop.orders", partitions=2)
        yield at


@pytest.fixture
def publish(address: str) -> Publish:
    def send(events: list[mainstem.Event]) -> None:
        with mainstem.connect(address) as stem:
            stem.publish_many("shop.orders", events)

    return send


def shop(text: str = SHOP, *, dsn: str = "", url: str = "") -> p.Pipeline:
    Path("shop.py").write_text(dedent(text).replace("DSN", dsn).replace("REDIS", url))
    return p.load(Path("shop.py"))


def sink_rows(pipeline: p.Pipeline, table: str) -> list[dict[str, object]]:
    rows = next(each for each in pipeline.tables if each.name == table).sink.read()
    assert rows is not None
    found: list[dict[str, object]] = rows.to_pylist()
    return found


def by_id(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda each: int(str(each["id"])))


def text(rows: list[dict[str, object]]) -> list[list[str]]:
    """Return rows as SQLite has them: decimals, times and dates as text."""
    return [
        [str(value).removesuffix("+00:00").removesuffix(".000000") for value in row.values()]
        for row in rows
    ]


def check_equal(pipeline: p.Pipeline, table: ChangingTable, *, with_history: bool = True) -> None:
    wanted = by_id(list(table.rows.values()))
    assert by_id(sink_rows(pipeline, "now")) == wanted
    assert by_id(sink_rows(pipeline, "mirror")) == wanted
    for name in ("rows", "cached", "index"):
        assert text(by_id(sink_rows(pipeline, name))) == text(wanted), name
    if not with_history:
        return
    versions = {
        (number, each.valid_from_us, each.valid_to_us, each.row)
        for number, known in table.versions.items()
        for each in known
    }
    assert {history_row(each) for each in sink_rows(pipeline, "history")} == versions


def history_row(row: dict[str, object]) -> tuple[object, ...]:
    begun, ended = row.pop("valid_from"), row.pop("valid_to")
    del row["_position"]
    return row["id"], micros(begun), micros(ended), tuple(row.items())


def micros(moment: object) -> int | None:
    if moment is None:
        return None
    assert isinstance(moment, datetime)
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def test_tables_equal_the_database_though_changes_come_late_and_twice(
    spark: SparkSession, address: str, publish: Publish, database: str, cache: str
) -> None:
    chance, table = random.Random(5), ChangingTable(5)
    pipeline = shop(dsn=database, url=cache)
    table.change(60)
    publish(table.events)
    bounded(spark, pipeline, address)
    check_equal(pipeline, table)

    sent = len(table.events)
    table.change(120)
    table.read_again(min(table.rows))
    late = table.events[sent:] + chance.sample(table.events, 40)
    chance.shuffle(late)
    publish(late)
    found = bounded(spark, pipeline, address, max_rows=70)

    check_equal(pipeline, table)
    assert all(each.bad == 0 for each in found.values())
    # A batch that Spark repeats after a crash changes nothing.
    for name in found:
        forget_last_commit(Path("state/shop") / name / "checkpoint")
    bounded(spark, pipeline, address)
    check_equal(pipeline, table)


HISTORY = f"""
    from mainstem import pipelines as p

    CHANGES = p.changes("shop.orders", schema="{SCHEMA}")
    history = p.apply_changes(CHANGES, key="id", sink=p.delta("t/history"), scd=2)
"""
MIRROR = f"""
    from mainstem import pipelines as p

    CHANGES = p.changes("shop.orders", schema="{SCHEMA}")
    now = p.apply_changes(CHANGES, key="id", sink=p.delta("t/now"))
"""
VERSIONS = change_queries._versions
MIRRORS = SHOP[: SHOP.index("    history =")]


def test_a_truncation_empties_the_copies_also_if_older_changes_come_later(
    spark: SparkSession, address: str, publish: Publish, database: str, cache: str
) -> None:
    table = ChangingTable(6)
    pipeline = shop(MIRRORS.replace(', "orders"', ', "emptied"'), dsn=database, url=cache)
    table.change(60)
    publish(table.events)
    bounded(spark, pipeline, address)
    table.change(30)
    late = table.events[-20:]
    lsn, sent = table.truncate(), len(table.events)
    table.change(40)
    publish([*truncation(lsn)[:1], *table.events[sent:]])
    bounded(spark, pipeline, address)
    check_equal(pipeline, table, with_history=False)

    publish([*late, *truncation(lsn)[:1]])
    bounded(spark, pipeline, address)

    check_equal(pipeline, table, with_history=False)


def test_a_table_that_was_read_anew_replaces_what_was_known_though_its_positions_are_lower(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    table, anew = ChangingTable(6), ChangingTable(7)
    pipeline = shop(MIRRORS[: MIRRORS.index("    rows =")])
    table.change(60)
    publish(table.events)
    bounded(spark, pipeline, address)
    anew.change(20)
    for number in anew.rows:
        anew.read_again(number)
    read = [of_epoch(each) for each in anew.events[-len(anew.rows) :]]
    source = {"lsn": 1, "snapshot": "true", "epoch": EPOCH}
    empties = [change("t", None, source) for _ in range(2)]

    publish([*empties, *read])
    bounded(spark, pipeline, address)
    assert by_id(sink_rows(pipeline, "now")) == by_id(list(anew.rows.values()))

    sent = len(anew.events)
    anew.change(40)
    # What one partition still had of before comes late.
    publish([*(of_epoch(each) for each in anew.events[sent:] if each.value), *table.events[-20:]])
    bounded(spark, pipeline, address)
    assert by_id(sink_rows(pipeline, "now")) == by_id(list(anew.rows.values()))


EPOCH = 1_794_729_600_000


def of_epoch(event: mainstem.Event) -> mainstem.Event:
    """Return a change as it is published after a new snapshot."""
    value = json.loads(event.value or b"")
    value["source"]["epoch"] = EPOCH
    return mainstem.Event(json.dumps(value).encode(), event.key)


def change(op: str, after: dict[str, object] | None, source: dict[str, object]) -> mainstem.Event:
    value = {"op": op, "before": None, "after": after, "source": source}
    return mainstem.Event(json.dumps(value).encode(), b"1")


def test_a_history_has_one_version_of_a_row_that_was_read_twice_at_the_same_position(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(f"""
        from mainstem import pipelines as p

        CHANGES = p.changes("shop.orders", schema="{SCHEMA}")
        history = p.apply_changes(CHANGES, key="id", sink=p.delta("t/history"), scd=2)
    """)

    def read(at_us: int) -> mainstem.Event:
        return change("r", {"id": 1, "name": "ann"}, {"lsn": 7, "ts_us": at_us})

    publish([read(1_000_000), read(2_000_000)])
    bounded(spark, pipeline, address)
    publish([read(3_000_000)])
    bounded(spark, pipeline, address)

    (version,) = sink_rows(pipeline, "history")
    assert (micros(version["valid_from"]), version["valid_to"]) == (1_000_000, None)


def truncation(lsn: int) -> list[mainstem.Event]:
    value = f'{{"op": "t", "before": null, "after": null, "source": {{"lsn": {lsn}}}}}'
    return [mainstem.Event(value.encode()) for _ in range(2)]


def without_order(changes: DataFrame, latest: str) -> DataFrame:
    return VERSIONS(changes, latest).withColumn("order", F.lit(""))


def always_logged(unavailable: Column, column: str) -> Column:
    return F.lit(False)


def not_emptied(rows: pa.Table, file: Path, batch: int) -> MirrorRows:
    return without_truncated(rows, file, batch)._replace(replace=False)


def not_left_out(rows: pa.Table, file: Path, batch: int) -> MirrorRows:
    """Empty the mirror, and take older changes of other partitions for newer ones."""
    replace = without_truncated(rows, file, batch).replace
    left = rows.filter(pc.is_null(rows.column(TRUNCATED)))
    return MirrorRows(left.drop_columns([TRUNCATED, CHANGED_AT]), replace)


@pytest.mark.parametrize(
    ("place", "name", "flaw"),
    [
        pytest.param(None, "", None, id="all guards"),
        pytest.param(change_queries, "_versions", without_order, id="order of positions"),
        pytest.param(change_queries, "_is_unavailable", always_logged, id="values not logged"),
        pytest.param(batch_writer, "without_truncated", not_emptied, id="truncate empties"),
        pytest.param(batch_writer, "without_truncated", not_left_out, id="older than truncate"),
    ],
)
def test_without_a_guard_it_is_seen_that_a_mirror_differs_from_the_database(
    spark: SparkSession,
    address: str,
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
    place: ModuleType | None,
    name: str,
    flaw: Callable[..., object] | None,
) -> None:
    if place is not None:
        monkeypatch.setattr(place, name, flaw)
    pipeline = shop(MIRROR)
    table = ChangingTable(6)
    table.change(120)
    late = table.events[-20:]
    publish(table.events[:-20])
    bounded(spark, pipeline, address)
    lsn, sent = table.truncate(), len(table.events)
    table.change(120)
    new = [*table.events[sent:], *late]
    random.Random(6).shuffle(new)
    publish([*truncation(lsn), *new])
    bounded(spark, pipeline, address)

    rows = by_id(sink_rows(pipeline, "now"))

    assert (rows == by_id(list(table.rows.values()))) == (place is None)


def test_a_history_stops_where_the_table_was_truncated(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(HISTORY)
    publish(truncation(7))

    with pytest.raises(PipelineFailed, match=r"the database table was truncated at 0+7:0+7,"):
        bounded(spark, pipeline, address)


def test_a_row_that_a_snapshot_read_late_was_there_before_the_next_change(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(HISTORY)
    table = ChangingTable(9)
    table.change(1)
    (number,) = table.rows
    table.read_again(number)
    table.change_name(number)
    read, changed = (json.loads(each.value or b"") for each in table.events[1:])
    changed_us = changed["source"]["ts_us"]
    # While the first rows were read, and the connector's clock is ahead.
    read["source"]["ts_us"] = changed_us + 2_000_000
    publish([mainstem.Event(json.dumps(each).encode(), b"1") for each in (read, changed)])

    bounded(spark, pipeline, address)

    rows = sorted(sink_rows(pipeline, "history"), key=lambda each: str(each["_position"]))
    times = [(micros(each["valid_from"]), micros(each["valid_to"])) for each in rows]
    assert times == [(changed_us, changed_us), (changed_us, None)]


def test_a_mirror_can_be_a_topic_with_tombstones(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(f"""
        from mainstem import pipelines as p

        CHANGES = p.changes("shop.orders", schema="{SCHEMA}")
        rows = p.apply_changes(CHANGES, key="id", sink=p.topic("rows"))
    """)
    table = ChangingTable(8)
    table.change(40)
    publish(table.events)
    with mainstem.connect(address) as stem:
        stem.topics.create("rows", partitions=1)

        bounded(spark, pipeline, address)

        found = {event.key: event.json() for event in stem.subscribe("rows", follow=False)}
    assert {row["id"] for row in found.values() if row} == set(table.rows)
    assert None in found.values()
