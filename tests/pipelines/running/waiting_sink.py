"""A pipeline file whose batches are written only when there is a file ``go``."""

import time
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from mainstem import pipelines as p
from mainstem.pipelines.sinks.port import Mark, Sink


class Slow(msgspec.Struct, frozen=True):
    """A sink that waits in the middle of a batch."""

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
        Path("writing").touch()
        while not Path("go").exists():
            time.sleep(0.05)
        return self.inner.write(rows, mark)

    def read(self) -> pa.Table | None:
        return self.inner.read()

    def beside(self, name: str) -> Sink:
        return Slow(self.inner.beside(name))

    def swap(self, name: str) -> None:
        self.inner.swap(name)


@p.table(
    source=p.events("numbers", schema="n bigint"), sink=Slow(p.sqlite("numbers.db", "numbers"))
)
def numbers(events: DataFrame) -> DataFrame:
    """Pass numbers on, by a Python function, so that there are Python workers."""
    return events.mapInPandas(lambda frames: frames, "n bigint")
