"""A pipeline file whose process and JVM are killed at the step of a batch that $DIE names.

``DIE=middle:1`` dies in the middle of writing batch 1. With ``GUARD=off`` the marks that tell
written batches mean nothing, which has to be seen in the table.
"""

import os
import secrets
import signal

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from mainstem import pipelines as p
from mainstem.pipelines.sinks import sqlite
from mainstem.pipelines.sinks.port import Mark, Sink

STEP, _, BATCH = os.environ.get("DIE", "never:-1").partition(":")


def die(rows: DataFrame) -> None:
    """Kill the JVM and this process, without a word to anybody."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    os.kill(jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(msgspec.Struct, frozen=True):
    """A sink that dies when it is told to."""

    inner: Sink

    @property
    def key(self) -> tuple[str, ...]:
        return self.inner.key

    @property
    def place(self) -> str:
        return self.inner.place

    def check(self, columns: StructType) -> None:
        self.inner.check(columns)

    def write(self, rows: DataFrame, mark: Mark) -> None:
        now = mark.batch == int(BATCH)
        if os.environ.get("GUARD") == "off":
            mark = Mark(secrets.token_hex(8), mark.batch)
        if now and STEP == "before":
            die(rows)
        if now and STEP == "middle":
            written = sqlite._value
            left = iter(range(7))

            def value(each: object) -> object:
                if next(left, None) is None:
                    die(rows)
                return written(each)

            setattr(sqlite, "_value", value)  # noqa: B010
        self.inner.write(rows, mark)
        if now and STEP == "after":
            die(rows)

    def read(self) -> pa.Table | None:
        return self.inner.read()

    def beside(self, name: str) -> Sink:
        return Dying(self.inner.beside(name))

    def swap(self, name: str) -> None:
        self.inner.swap(name)


numbers = p.sql(
    "select n, n * n as square from numbers",
    source="numbers",
    schema="n bigint",
    sink=Dying(p.sqlite("base.db", "numbers")),
)
