"""What Spark calls with each batch: here, or over Spark Connect in the server's Python.

Whether the run is to stop is said by a file, which is seen there, too: the next batch is turned
away before anything of it is written.
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
    """A file that is there if no batch shall be written any more."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a batch, unless the run is stopping."""
        if self.stop_file.exists():
            raise PipelineFailed(STOPPED)
        if not self.sink.write(rows, Mark(self.mark, number)):
            # A crash came before Spark had kept its state of that batch: now it does.
            rows.write.format("noop").mode("overwrite").save()
