"""Reads a table of the pipeline as the source of another: as a stream of appends, or a snapshot.

How this works: Spark needs extra jars to read a Delta table, so a data source in Python reads the
tables. An append-only table is a sequence of commits, each with some Parquet files; the offset of a
stream over it is the number of the next commit to read. A snapshot is the whole table, read again
with every batch.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, DataFrameReader, SparkSession, is_remote
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from mainstem.pipelines.definitions.table import Table
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.format.registration import register_source
from mainstem.pipelines.format.tasks import LAST_TIME
from mainstem.pipelines.sinks.delta import DeltaSink
from mainstem.pipelines.sinks.parquet import MANIFESTS, SCHEMA, ParquetSink, manifests

FORMAT = "mainstem-table"
_BATCH_ROWS = 10_000
_END = ""
"""The path in the row that marks the end of the input, which is in no file."""


def appended_rows(
    spark: SparkSession, table: Table, end_in: str | None = None, called: str = FORMAT
) -> DataFrame:
    """Return the stream of rows appended to a table.

    With ``end_in``, the last batch of a bounded run ends with a row that marks the end of the
    input; ``end_in`` names the column that has its time. ``called`` is the name under which
    TableSource is registered as a format.
    """
    if not isinstance(table.sink, (DeltaSink, ParquetSink)):
        raise InvalidDefinition(
            f"table {table.name!r} is kept in {table.sink.place}, which cannot be streamed from; "
            "keep it in Delta or Parquet, or in a topic and read that topic"
        )
    return _described(spark, table.sink, spark.readStream, called, end_in or "")


def snapshot(spark: SparkSession, table: Table) -> DataFrame:
    """Return a table's rows as they are when each batch starts."""
    if not isinstance(table.sink, DeltaSink):
        raise InvalidDefinition(
            f"table {table.name!r} is kept in {table.sink.place}, of which no snapshot can be "
            "read; keep it in a Delta table"
        )
    return _described(spark, table.sink, spark.read)


def _described(
    spark: SparkSession,
    sink: DeltaSink | ParquetSink,
    reader: DataFrameReader | DataStreamReader,
    called: str = FORMAT,
    end_in: str = "",
) -> DataFrame:
    if not is_remote():
        register_source(spark, TableSource)
    path = str(Path(sink.path).resolve())
    kind = "delta" if isinstance(sink, DeltaSink) else "parquet"
    columns = from_arrow_schema(_columns(kind, path))
    options = {"kind": kind, "path": path, "endIn": end_in}
    return reader.format(called).schema(columns).options(**options).load()


def _columns(kind: str, path: str) -> pa.Schema:
    if kind == "parquet":
        return pq.read_schema(Path(path, MANIFESTS, SCHEMA))
    return pa.schema(DeltaTable(path).schema().to_arrow())


class FilePartition(InputPartition):
    """A Spark input partition: one Parquet file of a table, read by one task."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class TableSource(DataSource):
    """Data source ``format("mainstem-table")``: a Delta table, or files of ``p.parquet``."""

    @classmethod
    def name(cls) -> str:
        """Return the format name."""
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the whole table."""
        return SnapshotReader(self.options["path"])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return a reader of the table's commits, one after another."""
        options = self.options
        return CommitReader(options["kind"], options["path"], options["endIn"])


class SnapshotReader(DataSourceReader):
    """Reads a Delta table as it is when a batch is planned."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        """Return the files of the newest version."""
        return [FilePartition(path) for path in DeltaTable(self._path).file_uris()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a file."""
        assert isinstance(partition, FilePartition)
        return _rows(partition.path, _columns("delta", self._path))


class CommitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that commits appended, and with ``end_in`` the row that marks the end."""

    def __init__(self, kind: str, path: str, end_in: str) -> None:
        self._kind, self._path, self._end_in = kind, path, end_in
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        """Return the offset of a new stream: the first commit."""
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Return the limit of a batch: all commits that exist."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Fix where the stream ends: commits made later are not read."""
        self._last = self._next()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the number of the next commit, after the last one to read."""
        if start.get("ended"):
            return start
        found = self._next() if self._last is None else self._last
        end = {"ended": 1} if self._end_in and self._last is not None else {}
        return {"next": max(start["next"], found), **end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the files that the commits from ``start`` up to ``end`` (exclusive) added."""
        files = _delta_files if self._kind == "delta" else _parquet_files
        found = files(Path(self._path), start["next"], end["next"])
        end_mark = [_END] if end.get("ended") and not start.get("ended") else []
        return [FilePartition(file) for file in [*found, *end_mark]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a file."""
        assert isinstance(partition, FilePartition)
        columns = _columns(self._kind, self._path)
        if partition.path == _END:
            return iter([pa.RecordBatch.from_pylist([{self._end_in: LAST_TIME}], columns)])
        return _rows(partition.path, columns)

    def _next(self) -> int:
        if self._kind == "delta":
            return DeltaTable(self._path).version() + 1
        return sum(1 for _ in Path(self._path, MANIFESTS).glob("*.json"))


class _Added(msgspec.Struct):
    path: str
    dataChange: bool  # noqa: N815 - Delta's


class _Action(msgspec.Struct):
    add: _Added | None = None


def _delta_files(root: Path, start: int, end: int) -> list[str]:
    found = []
    for version in range(start, end):
        log = root / "_delta_log" / f"{version:020}.json"
        try:
            lines = log.read_bytes().splitlines()
        except FileNotFoundError:
            raise PipelineFailed(
                f"version {version} of the Delta table {root} is gone, and with it rows "
                "that were not read yet; replay into a new target"
            ) from None
        for line in lines:
            added = msgspec.json.decode(line, type=_Action).add
            # A commit of Delta's own compaction rewrites rows that were read before.
            if added is not None and added.dataChange:
                found.append(str(root / added.path))
    return found


def _parquet_files(root: Path, start: int, end: int) -> list[str]:
    return [
        str(root / name)
        for each in manifests(root)
        if start < each.sequence <= end
        for name in each.files
    ]


def _rows(path: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Earlier versions wrote timestamps as INT96.
    opened = pq.ParquetFile(path.removeprefix("file://"), coerce_int96_timestamp_unit="us")
    with opened as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield pa.RecordBatch.from_arrays(
                [batch.column(field.name).cast(field.type) for field in columns], schema=columns
            )
