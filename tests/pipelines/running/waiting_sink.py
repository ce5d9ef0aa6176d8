"""A pipeline file whose batches are written only when there is a file ``go``."""

import time
from pathlib import Path

from pyspark.sql import DataFrame

from mainstem import pipelines as p
from mainstem.pipelines.sinks.port import Mark
from mainstem.pipelines.sinks.sqlite import SqliteSink


class Slow(SqliteSink, frozen=True):
    """A sink that waits in the middle of a batch."""

    def write(self, rows: DataFrame, mark: Mark) -> bool:
        Path("writing").touch()
        while not Path("go").exists():
            time.sleep(0.05)
        return super().write(rows, mark)


@p.table(source=p.events("numbers", schema="n bigint"), sink=Slow("numbers.db", "numbers"))
def numbers(events: DataFrame) -> DataFrame:
    """Pass numbers on, by a Python function, so that there are Python workers."""
    return events.mapInPandas(lambda frames: frames, "n bigint")
