"""The Python data source behind ``format("mainstem")``."""

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
    """The data source ``format("mainstem")``."""

    @classmethod
    def name(cls) -> str:
        """Return the format name."""
        return "mainstem"

    def schema(self) -> str:
        """Return the columns, which are the same for every topic."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of ``spark.read``."""
        return BatchReader(source_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of ``df.write``."""
        # Imported here, as the planning process of a read does not need it.
        from mainstem.pipelines.format.sink import BatchSink  # noqa: PLC0415

        return BatchSink(_appending(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of ``df.writeStream``."""
        from mainstem.pipelines.format.sink import StreamSink  # noqa: PLC0415

        return StreamSink(_appending(self.options, schema, overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of ``spark.readStream``."""
        return StreamReader(source_options(self.options))


def _appending(options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkOptions:
    from mainstem.pipelines.format.event_rows import check_columns  # noqa: PLC0415 - as above

    if overwrite:
        raise InvalidSetting(
            "a topic cannot be overwritten, only added to: mode('append'); delete the topic before "
            "(mainstem topic delete) if that is what is wanted"
        )
    found = sink_options(options)
    check_columns(schema, found.topic)
    return found
