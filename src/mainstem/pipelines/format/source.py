"""The data source ``mainstem``: what Spark asks of it when a topic is read or written."""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from mainstem.pipelines.format.batch_reader import BatchReader
from mainstem.pipelines.format.options import source_options
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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what answers ``spark.readStream``."""
        return StreamReader(source_options(self.options))
