"""The data source ``mainstem``: what Spark asks of it when a topic is read or written."""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from mainstem.core.errors import InvalidSetting
from mainstem.pipelines.format.batch_reader import BatchReader
from mainstem.pipelines.format.options import SinkOptions, sink_options, source_options
from mainstem.pipelines.format.schema import COLUMNS
from mainstem.pipelines.format.stream_reader import StreamReader


class MainstemSource(DataSource):
    """``format("mainstem")``."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in ``format(...)``."""
        return "mainstem"

    def schema(self) -> str:
        """Return the columns, which are the same for every topic."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what answers ``spark.read``."""
        return BatchReader(source_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what answers ``df.write``."""
        # Spark starts a process for each query that reads, which has no use for this.
        from mainstem.pipelines.format.sink import BatchSink  # noqa: PLC0415

        return BatchSink(_appending(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return what answers ``df.writeStream``."""
        from mainstem.pipelines.format.sink import StreamSink  # noqa: PLC0415

        return StreamSink(_appending(self.options, schema, overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what answers ``spark.readStream``."""
        return StreamReader(source_options(self.options))


def _appending(options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkOptions:
    from mainstem.pipelines.format.rows import check_columns  # noqa: PLC0415 - as above

    if overwrite:
        raise InvalidSetting(
            "a topic cannot be overwritten, only added to: mode('append'); delete the topic before "
            "(mainstem topic delete) if that is what is wanted"
        )
    found = sink_options(options)
    check_columns(schema, found.topic)
    return found
