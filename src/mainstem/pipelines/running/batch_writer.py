"""The ``foreachBatch`` function of a table; over Spark Connect it runs in the server's Python.

A stop is signalled by a file, which the server can see too: the next batch is refused before any
of it is written.
"""

from pathlib import Path

import msgspec
from pyspark.sql import DataFrame

from mainstem.pipelines.errors import PipelineFailed
from mainstem.pipelines.sinks.port import Mark, Sink

STOPPED = "mainstem: stopped before this batch"


class BatchWriter(msgspec.Struct, frozen=True):
    """Writes the batches of one table."""

    sink: Sink
    mark: str
    stop_file: Path
    """While this file exists, no batch is written."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a batch, unless the run is stopping."""
        if self.stop_file.exists():
            raise PipelineFailed(STOPPED)
        if not self.sink.write(rows, Mark(self.mark, number)):
            # The sink has it, but a crash prevented Spark from saving its state of this batch.
            rows.write.format("noop").mode("overwrite").save()
