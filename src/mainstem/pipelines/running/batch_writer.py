"""The ``foreachBatch`` function of a table; over Spark Connect it runs in the server's Python.

A run is stopped by creating a file, as the Connect server can see that too: while the file exists,
a batch is refused before any of it is written.
"""

from pathlib import Path
from typing import cast

import msgspec
from pyspark.sql import DataFrame

from mainstem.pipelines.errors import PipelineFailed
from mainstem.pipelines.running.truncation import without_truncated
from mainstem.pipelines.sinks.collecting import CollectedRows
from mainstem.pipelines.sinks.port import TRUNCATED, Mark, Sink
from mainstem.pipelines.sinks.topic import TopicSink

STOPPED = "mainstem: stopped before this batch"


class BatchWriter(msgspec.Struct, frozen=True):
    """The ``foreachBatch`` function of one table."""

    sink: Sink
    mark: str
    stop_file: Path
    """While this file exists, no batch is written."""
    truncation: Path
    """Stores the newest truncation of a mirrored database table."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a batch to the sink; raises PipelineFailed if the run is stopping."""
        if self.stop_file.exists():
            raise PipelineFailed(STOPPED)
        mark = Mark(self.mark, number)
        if TRUNCATED not in rows.columns:
            if not self.sink.write(rows, mark):
                # The sink has the batch, but a crash prevented Spark from saving its state after
                # it. Spark does that once the rows are read.
                rows.write.format("noop").mode("overwrite").save()
            return
        # Collected once, so that Spark does not compute the rows twice: for the truncation, and for
        # the sink.
        data, replace = without_truncated(rows.toArrow(), self.truncation, number)
        mark = msgspec.structs.replace(mark, replace=replace)
        if isinstance(self.sink, TopicSink):
            self.sink.write(rows.sparkSession.createDataFrame(data), mark)
        else:
            self.sink.write(cast("DataFrame", CollectedRows(data)), mark)
