"""A pipeline file whose process and JVM are killed at the step of a batch that $DIE names.

``DIE=delta:middle`` dies in the middle of the first batch that the table ``delta`` writes in this
run. The steps are ``before`` anything is written, in the ``middle`` of writing, ``after`` the sink
has committed, and at the ``offset``: when Spark writes down that the batch is done. The marks of
the table ``unguarded`` mean nothing, so that it shows what would happen without them.
"""

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from redis.commands.core import Script

from mainstem import pipelines as p
from mainstem.pipelines.format.options import sink_options
from mainstem.pipelines.format.sink import BatchSink
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.sinks import parquet, redis, search, sqlite
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.topic import TopicSink
from mainstem.remote.transactions import Outgoing, TransactionalProducer

TABLE, STEP = os.environ.get("DIE", "nobody:never").split(":")
STATE = Path("mainstem-pipelines", Path(__file__).stem)
Death = Callable[[], None]


def death_of(*processes: int) -> Death:
    """Return what kills these, and whoever calls it, without a word to anybody."""

    def die() -> None:
        for each in (*processes, os.getpid()):
            os.kill(each, signal.SIGKILL)

    return die


class Dying(msgspec.Struct, frozen=True):
    """A sink that dies when it is told to."""

    name: str
    inner: Sink

    @property
    def key(self) -> tuple[str, ...]:
        return self.inner.key

    @property
    def place(self) -> str:
        return self.inner.place

    def check(self, columns: StructType) -> None:
        self.inner.check(columns)

    def write(self, rows: DataFrame, mark: Mark) -> bool:
        batch = mark.batch
        if self.name == "unguarded":
            mark = Mark(secrets.token_hex(8), batch)
        if self.name != TABLE:
            return self.inner.write(rows, mark)
        jvm = rows.sparkSession._jvm
        assert jvm is not None
        driver_and_jvm = (os.getpid(), int(jvm.java.lang.ProcessHandle.current().pid()))
        die = death_of(*reversed(driver_and_jvm))
        if STEP == "before":
            die()
        if STEP == "middle":
            MIDDLES[self.name](die, rows, driver_and_jvm)
        written = self.inner.write(rows, mark)
        if STEP == "after":
            die()
        if STEP == "offset":
            commits = STATE / self.name / "checkpoint" / "commits"
            when_there(commits, lambda each: each.lstrip(".").split(".")[0] == str(batch), die)
        return written

    def read(self) -> pa.Table | None:
        return self.inner.read()

    def beside(self, name: str) -> Sink:
        return Dying(self.name, self.inner.beside(name))

    def swap(self, name: str) -> None:
        self.inner.swap(name)


def when_there(directory: Path, wanted: Callable[[str], bool], die: Death) -> None:
    """Die as soon as there is such a file; before it is whole, as a rule."""

    def names() -> set[str]:
        return {each.name for each in directory.iterdir()} if directory.is_dir() else set()

    before = names()

    def watch() -> None:
        while True:
            if any(map(wanted, names() - before)):
                die()

    threading.Thread(target=watch, daemon=True).start()


def in_sqlite(die: Death, *_: object) -> None:
    """Die when some rows are inserted."""
    written, left = sqlite._value, iter(range(7))

    def value(each: object) -> object:
        if next(left, None) is None:
            die()
        return written(each)

    setattr(sqlite, "_value", value)  # noqa: B010


def in_delta(die: Death, *_: object) -> None:
    """Die when there is a file of rows."""
    when_there(Path("delta"), lambda name: name.endswith(".parquet"), die)


def in_parquet(die: Death, *_: object) -> None:
    """Die when the files of rows are in their place, and the manifest is not."""
    setattr(parquet, "_commit", lambda *_: die())  # noqa: B010


def in_topic(_: Death, rows: DataFrame, driver_and_jvm: tuple[int, int]) -> None:
    """Die, in the process that Spark has for that, when some events of the transaction are sent."""

    class Writer(BatchSink):
        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            setattr(TransactionalProducer, "write", _half_written)  # noqa: B010
            super().commit(messages)

    class Source(MainstemSource):
        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return Writer(sink_options(self.options))

    def _half_written(self: TransactionalProducer, events: Iterator[Outgoing], _: object) -> int:
        self._producer.begin_transaction()
        for _number in range(7):
            self._put(next(events))
        self._producer.flush(10)
        death_of(*reversed(driver_and_jvm))()
        return 0

    rows.sparkSession.dataSource.register(Source)


def in_postgres(die: Death, *_: object) -> None:
    """Die when all rows are inserted, and neither the mark nor the transaction is."""
    insert = psycopg.Cursor.executemany

    def insert_and_die(*arguments: object) -> None:
        insert(*arguments)  # type: ignore[arg-type]
        die()

    setattr(psycopg.Cursor, "executemany", insert_and_die)  # noqa: B010


def in_redis(die: Death, *_: object) -> None:
    """Die when the first rows are written, in one of several calls, and the mark is not."""
    call = Script.__call__

    def call_and_die(self: Script, *arguments: Any) -> None:
        call(self, *arguments)
        die()

    setattr(redis, "_ROWS_PER_CALL", 7)  # noqa: B010
    setattr(Script, "__call__", call_and_die)  # noqa: B010


def in_search(die: Death, *_: object) -> None:
    """Die when some rows are added to the index, and nothing is committed."""
    made, left = search.SearchSink._document, iter(range(7))

    def document(self: search.SearchSink, *row: Any) -> object:
        if next(left, None) is None:
            die()
        return made(self, *row)

    setattr(search.SearchSink, "_document", document)  # noqa: B010


MIDDLES: dict[str, Callable[[Death, DataFrame, tuple[int, int]], None]] = {
    "sqlite": in_sqlite,
    "delta": in_delta,
    "parquet": in_parquet,
    "topic": in_topic,
    "postgres": in_postgres,
    "redis": in_redis,
    "search": in_search,
}
SINKS: dict[str, Sink] = {
    "sqlite": p.sqlite("base.db", "numbers"),
    "delta": p.delta("delta", key="digit"),
    "parquet": p.parquet("parquet"),
    "topic": TopicSink("squares", address=os.environ["MAINSTEM_AT"]),
    "postgres": p.postgres(os.environ["DATABASE"], "numbers"),
    "redis": p.redis(os.environ["REDIS"], "numbers", key="n"),
    "search": p.search("index", key="n", text="square"),
    "unguarded": p.sqlite("base.db", "unguarded"),
}
NUMBERS = p.events("numbers", schema="n bigint")


def squares(numbers: DataFrame) -> DataFrame:
    """Rows that are only added."""
    return numbers.selectExpr("n", "n * n as square")


def sums(numbers: DataFrame) -> DataFrame:
    """Rows that replace one another, made of what Spark keeps between batches."""
    return numbers.groupBy((F.col("n") % 10).alias("digit")).agg(F.sum("n").alias("sum"))


(
    sqlite_table,
    delta_table,
    parquet_table,
    topic_table,
    postgres_table,
    redis_table,
    search_table,
    unguarded_table,
) = (
    p.table(source=NUMBERS, sink=Dying(name, sink), name=name)(sums if name == "delta" else squares)
    for name, sink in SINKS.items()
)
