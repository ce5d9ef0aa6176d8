"""A swap puts a copy in the place of a table that others read: they see the old or the new."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from redis import Redis
from tests.processes import wait_until

from mainstem import pipelines as p
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.sinks import directories
from mainstem.pipelines.sinks.directories import adopt
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.search import search_index

ROWS = 40
SWAPS = 8
Read = Callable[[], set[int]]
"""Reads all rows as another program does; returns the versions of the table that it saw."""


def in_delta(path: Path, request: pytest.FixtureRequest) -> tuple[Sink, Read]:
    def read() -> set[int]:
        rows = DeltaTable(str(path / "table")).to_pyarrow_table()
        assert rows.num_rows == ROWS
        return set(rows.column("version").to_pylist())

    return p.delta(str(path / "table"), key="id"), read


def in_search(path: Path, request: pytest.FixtureRequest) -> tuple[Sink, Read]:
    def read() -> set[int]:
        rows = [each.row for each in search_index(path / "index", "word", 100)]
        assert len(rows) == ROWS
        return {int(str(each["version"])) for each in rows}

    return p.search(str(path / "index"), key="id"), read


def in_sqlite(path: Path, request: pytest.FixtureRequest) -> tuple[Sink, Read]:
    def read() -> set[int]:
        with closing(sqlite3.connect(path / "base.db", timeout=30)) as base:
            rows = base.execute("SELECT version FROM copied").fetchall()
        assert len(rows) == ROWS
        return {version for (version,) in rows}

    return p.sqlite(str(path / "base.db"), "copied", key="id"), read


def in_postgres(path: Path, request: pytest.FixtureRequest) -> tuple[Sink, Read]:
    address = request.getfixturevalue("database")

    def read() -> set[int]:
        with psycopg.connect(address) as base:
            # A user who may read this table, and nothing else.
            base.execute("SET ROLE reader")
            rows = base.execute("SELECT version FROM copied").fetchall()
        assert len(rows) == ROWS
        return {version for (version,) in rows}

    with psycopg.connect(address) as base:
        base.execute("DROP TABLE IF EXISTS copied")
        base.execute("CREATE ROLE reader")
    return p.postgres(address, "copied", key="id"), read


def in_redis(path: Path, request: pytest.FixtureRequest) -> tuple[Sink, Read]:
    address = request.getfixturevalue("cache")

    def read() -> set[int]:
        with Redis.from_url(address, protocol=2) as base:
            values = base.mget([f"copied:{number}" for number in range(ROWS)])
        return {int(str(each).rpartition('"version":')[2].split("}")[0]) for each in values}

    return p.redis(address, "copied", key="id"), read


@pytest.mark.parametrize("kind", [in_delta, in_search, in_sqlite, in_postgres, in_redis])
def test_readers_always_find_all_rows_of_one_version(
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kind: Callable[..., tuple[Sink, Read]],
) -> None:
    sink, read = kind(tmp_path, request)

    def write(target: Sink, version: int) -> None:
        rows = spark.range(ROWS).selectExpr("id", "'a word' as text", f"{version} as version")
        target.check(rows.schema)
        target.write(rows, Mark(f"shop.orders.{version}", 3))

    write(sink, 0)
    for version in range(1, SWAPS + 1):
        write(sink.beside(f"v{version}"), version)
    if kind is in_postgres:
        with psycopg.connect(request.getfixturevalue("database")) as base:
            base.execute("GRANT SELECT ON copied TO reader")

    with Readers(read) as readers:
        for version in range(1, SWAPS + 1):
            readers.wait_for_reads()
            sink.swap(f"v{version}")
    assert readers.errors == []
    assert all(len(each) == 1 for each in readers.seen)
    assert read() == {SWAPS}

    # The marks came along, and what was replaced is kept.
    assert not sink.write(spark.range(0), Mark(f"shop.orders.{SWAPS}", 3))
    old = sink.beside(f"before-v{SWAPS}")
    if kind in (in_sqlite, in_postgres):
        old = sink.beside(f"before_v{SWAPS}")
    rows = old.read()
    assert rows is not None
    assert set(rows.column("version").to_pylist()) == {SWAPS - 1}
    write(sink, SWAPS + 1)
    assert read() == {SWAPS + 1}


class Readers:
    """Two threads that read until they are told to stop."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._stop = threading.Event()
        self.seen: list[set[int]] = []
        self.errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(2)]

    def __enter__(self) -> "Readers":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def wait_for_reads(self) -> None:
        known = len(self.seen)
        wait_until(lambda: self.errors or len(self.seen) > known + 5, "nobody reads")

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.seen.append(self._read())
            except Exception as error:
                self.errors.append(error)
                return


def test_the_guard_of_versions_works_after_a_swap(spark: SparkSession, cache: str) -> None:
    sink = p.redis(cache, "guarded", key="id", latest="version")
    rows = spark.createDataFrame([("a", "5", True)], "id string, version string, __deleted boolean")
    for target in (sink, sink.beside("fixed")):
        target.check(rows.drop("__deleted").schema)
        target.write(rows, Mark("x", 0))

    sink.swap("fixed")
    sink.write(spark.createDataFrame([("a", "4")], "id string, version string"), Mark("x", 1))

    table = sink.read()
    assert table is not None
    assert table.num_rows == 0


# A directory with the file "what"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for name, what in (("table", "old"), ("table.fixed", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "what").write_text(what)
    return tmp_path / "table"


def what(path: Path) -> tuple[str, str]:
    kept = path.with_name("table.before-fixed")
    return (path / "what").read_text(), (kept / "what").read_text()


STEPS = ("exchange", "rename", "unlink", "write_text")


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_swap_that_a_crash_interrupted_is_completed(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int, can_exchange: bool
) -> None:
    exchange, calls = directories._exchange, count()

    def crashing(call: Callable[..., object]) -> Callable[..., object]:
        def found(*given: object, **named: object) -> object:
            if next(calls) == number:
                raise KeyboardInterrupt
            return call(*given, **named)

        return found

    possible = exchange if can_exchange else lambda *_: False
    with monkeypatch.context() as patch:
        patch.setattr(directories, "_exchange", possible)
        if step == "exchange":
            patch.setattr(directories, "_exchange", crashing(possible))
        else:
            patch.setattr(Path, step, crashing(getattr(Path, step)))
        try:
            adopt(path, "fixed")
        except KeyboardInterrupt:
            patch.undo()
            patch.setattr(directories, "_exchange", possible)
            adopt(path, "fixed")

    adopt(path, "fixed")
    assert what(path) == ("new", "old")
    assert sorted(each.name for each in path.iterdir()) == ["what"]
    assert sorted(each.name for each in path.parent.iterdir()) == ["table", "table.before-fixed"]


def test_the_directory_is_there_after_every_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, steps = Path.rename, []

    def watched(one: Path, other: Path) -> Path:
        found = rename(one, other)
        steps.append((path / "what").exists())
        return found

    monkeypatch.setattr(Path, "rename", watched)
    adopt(path, "fixed")

    assert steps == [True]


def test_a_directory_kept_by_an_earlier_swap_is_not_replaced(path: Path) -> None:
    path.with_name("table.before-fixed").mkdir()

    with pytest.raises(RunRefused, match="exists from an earlier swap"):
        adopt(path, "fixed")

    assert (path / "what").read_text() == "old"
