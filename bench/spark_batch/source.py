"""format("mainstem") with timers in the planning process."""

from collections.abc import Sequence

from bench.spark_batch import spans
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from mainstem.pipelines.format.offsets import Json
from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.format.stream_reader import StreamReader

LATEST, PARTITIONS, COMMIT = "latestOffset", "partitions", "commit"


class TimedSource(MainstemSource):
    """The source, with a reader that is timed."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader that is timed."""
        return TimedReader(source_options(self.options))


class TimedReader(StreamReader):
    """A reader that keeps how long the calls took that Spark makes for each batch."""

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Measure the end of the next batch."""
        with spans.kept(LATEST):
            return super().latestOffset(start, limit)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Measure the planning of tasks."""
        with spans.kept(PARTITIONS):
            return super().partitions(start, end)

    def commit(self, end: Json) -> None:
        """Measure what follows a batch."""
        with spans.kept(COMMIT):
            super().commit(end)
