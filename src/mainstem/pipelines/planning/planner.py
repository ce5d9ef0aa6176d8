"""Builds the DataFrame that Spark runs from a table's definition; raises errors before any batch.

How this works: every topic is read by ``format("mainstem")``, decoded, and observed
(``DataFrame.observe``): Spark reports with each batch the number of events, the number of bad ones
and the earliest event time, so that the audit (``bad_events/audit.py``) reads again only the
batches that need it.

If the input is declared complete (``--complete``), a source with a watermark adds one row to its
last batch, with a time after all others. That row moves the watermark past all windows, so that
they close, and is filtered out right after the watermark. All its columns but the time are null, so
a filter of the query would drop it if Spark pushed that filter below the watermark; Spark pushes
nothing through an observation, so one is put in between. The plan is the same with and without that
row, as the checkpoint requires.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from mainstem.core.errors import MainstemError
from mainstem.pipelines.definitions.table import INFER, Pipeline, Source, Table
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.format.stream_reader import StreamReader
from mainstem.pipelines.planning.decoding import (
    BAD,
    END_OF_TIME,
    decoded,
    decoded_once,
    failing_at_bad,
    good_rows,
    with_skipped,
)
from mainstem.pipelines.planning.schemas import SAMPLE_EVENTS, inferred
from mainstem.pipelines.planning.table_source import TableSource, appended_rows, snapshot
from mainstem.pipelines.sinks.port import INTERNAL
from mainstem.pipelines.spark.error_messages import cause_of, save_traceback
from mainstem.pipelines.spark.progress import Offsets, topic_offsets
from mainstem.pipelines.spark.retry import with_retries
from mainstem.pipelines.state.table_state import StateDirectory
from mainstem.remote.arrow.range import Range

_PARTS = 100


class Bounds(msgspec.Struct, frozen=True):
    """The range to read of a pipeline's topics, as options of ``format("mainstem")``."""

    starting: dict[str, str] = {}
    ending: dict[str, str] = {}
    max_rows: int | None = None


class Planner:
    """Builds the Spark plans of a pipeline's tables in one session."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        address: str,
        into: str | None,
        bounds: Bounds,
        format_of: Callable[[type[DataSource]], str] = lambda source: source.name(),
    ) -> None:
        """``format_of`` registers a data source for a stream and returns its format name."""
        self._spark, self._pipeline = spark, pipeline
        self._address, self._into = address, into
        self._bounds = bounds
        self._format_of = format_of
        # SQL queries see their sources as temporary views, whose names tables of one session may
        # share.
        self._views = threading.Lock()

    def frame(
        self, table: Table, state_dir: StateDirectory, *, complete: bool = False
    ) -> DataFrame:
        """Return the streaming DataFrame of a table; raises InvalidDefinition.

        With ``complete``, the input is declared complete: it ends where the range to read ends.
        """
        spot = f"{Path(table.file).name}:{table.line}" if table.file else self._pipeline.file.name
        where = f"{spot}: table {table.name!r}"
        try:
            result = with_retries(lambda: self._built(table, state_dir, complete=complete))
        except PySparkException as error:
            cause = cause_of(error, self._pipeline.file)
            kept = save_traceback(error, cause, state_dir)
            raise InvalidDefinition(f"{where}: {cause}; {kept}") from error
        except InvalidDefinition as error:
            raise InvalidDefinition(f"{where}: {error}") from None
        if result is None:
            raise InvalidDefinition(f"{where}: its function returns nothing; return a DataFrame")
        if not isinstance(result, DataFrame):
            raise InvalidDefinition(
                f"{where}: its function returns {type(result).__name__}, not a DataFrame"
            )
        if not result.isStreaming:
            raise InvalidDefinition(
                f"{where} reads no stream, only snapshots; name a topic or an append-only table"
            )
        self._check_sink(table, result, where)
        return result

    def _check_sink(self, table: Table, result: DataFrame, where: str) -> None:
        try:
            table.sink.check(stored_columns(result.schema))
        except MainstemError:
            raise
        except Exception as error:
            # Each sink's library raises its own errors, such as for an unwritable directory.
            raise InvalidDefinition(
                f"{where}: {table.sink.place} cannot be created or opened: "
                f"{cause_of(error, self._pipeline.file)}; remove what is in the way, or choose "
                "another target"
            ) from error

    def _built(self, table: Table, state_dir: StateDirectory, *, complete: bool) -> object:
        inputs = [
            self._input(table, source, number, state_dir, complete=complete)
            for number, source in enumerate(self._known(table, state_dir))
        ]
        with self._views:
            result = self.apply_query(table, inputs)
        if isinstance(result, DataFrame):
            # Spark Connect analyses a plan only when its result is requested.
            _ = result.schema
        return result

    def apply_query(self, table: Table, inputs: Sequence[DataFrame]) -> object:
        """Call a table's function with its inputs, or run its SQL; return the result."""
        if not isinstance(table.query, str):
            try:
                return table.query(*inputs)
            except (PySparkException, MainstemError):
                raise
            except Exception as error:
                # A user's function may raise anything: it is an error of the definition.
                raise InvalidDefinition(f"{type(error).__name__}: {error}") from error
        for source, frame in zip(table.sources, inputs, strict=True):
            frame.createOrReplaceTempView(f"`{source.name}`")
        return self._spark.sql(table.query)

    def _known(self, table: Table, state_dir: StateDirectory) -> tuple[Source, ...]:
        """Return the table's sources with their schemas; stores inferred ones for later runs."""
        kept = state_dir.schemas()
        found = dict(kept)
        for source in table.sources:
            if source.schema == INFER and source.name not in found:
                found[source.name] = inferred(self._sample(source), f"source {source.name!r}")
        if found != kept:
            state_dir.save_schemas(found)
        return tuple(
            msgspec.structs.replace(each, schema=found[each.name]) if each.schema == INFER else each
            for each in table.sources
        )

    def _sample(self, source: Source) -> DataFrame:
        raw = self._spark.read.format("mainstem").options(
            address=self._address, subscribe=source.name
        )
        return raw.load().limit(SAMPLE_EVENTS).select(F.expr("string(value)").alias("value"))

    def _input(
        self,
        table: Table,
        source: Source,
        number: int,
        state_dir: StateDirectory,
        *,
        complete: bool,
    ) -> DataFrame:
        above = self._pipeline.above(table, source.name)
        complete = complete and source.watermark is not None
        if above is None:
            rows = self._topic(table, source, number, state_dir, mark_end=complete)
        elif above.keeps_rows:
            end_in = source.watermark[0] if complete and source.watermark else None
            rows = appended_rows(
                self._spark, self._target(above), end_in, self._format_of(TableSource)
            )
            if source.watermark:
                rows = rows.observe(observation(number), *_figures(rows, source, bad=False))
        else:
            return snapshot(self._spark, self._target(above))
        if source.watermark is None:
            return rows
        column, delay = source.watermark
        at = F.col(f"`{column}`")
        return (
            rows.withWatermark(column, delay)
            .observe(f"watermark{number}", F.count(F.lit(1)).alias("rows"))
            .where(at < F.lit(END_OF_TIME).cast("timestamp"))
        )

    def _target(self, table: Table) -> Table:
        if self._into is None:
            return table
        return msgspec.structs.replace(table, sink=table.sink.beside(self._into))

    def _topic(
        self, table: Table, source: Source, number: int, state_dir: StateDirectory, mark_end: bool
    ) -> DataFrame:
        options = self._options(table, source) | {"markEnd": str(mark_end).lower()}
        reader = self._spark.readStream.format(self._format_of(MainstemSource))
        rows = decoded(reader.options(**options).load(), source)
        if table.bad == "dead":
            rows = with_skipped(rows, state_dir.skipped_events().get(source.name, {}))
        rows = rows.observe(observation(number), *_figures(rows, source, bad=True))
        if table.bad == "stop":
            rows = failing_at_bad(rows)
        elif any(each.on_fail == "stop" for each in source.expectations):
            rows = failing_at_bad(rows, only_expected=True)
        return good_rows(rows)

    def _options(self, table: Table, source: Source) -> dict[str, str]:
        options = {
            "address": self._address,
            "subscribe": source.name,
            "group": group_of(self._pipeline, table, self._into),
            **_of_topic(self._bounds.starting, source.name),
            **_of_topic(self._bounds.ending, source.name),
        }
        if self._bounds.max_rows:
            options["maxRowsPerTrigger"] = str(self._bounds.max_rows)
        return options

    # For the search for failing events

    def reads_table(self, table: Table) -> bool:
        """Return whether a source of the table is another table, not a topic."""
        return any(self._pipeline.above(table, each.name) for each in table.sources)

    def starts(self, table: Table) -> Offsets:
        """Return the offsets at which the first batch of a table begins."""
        found: Offsets = {}
        for source in table.sources:
            if self._pipeline.above(table, source.name) is None:
                reader = StreamReader(source_options(self._options(table, source)))
                found |= topic_offsets(reader.initialOffset())
                reader.stop()
        return found

    def bounded(
        self, table: Table, state_dir: StateDirectory, ranges: Sequence[Range]
    ) -> DataFrame:
        """Return the rows that the table's query gives for offset ranges of its only topic."""
        rows = self.decoded_range(table, state_dir, ranges)
        with self._views:
            result = self.apply_query(table, [rows])
        assert isinstance(result, DataFrame)
        return result

    def decoded_range(
        self, table: Table, state_dir: StateDirectory, ranges: Sequence[Range]
    ) -> DataFrame:
        """Return the decoded input rows of a table for offset ranges of its only topic."""
        (source,) = self._known(table, state_dir)
        options = {
            "address": self._address,
            "subscribe": source.name,
            "startingOffsets": _edge(ranges, lambda each: each.start),
            "endingOffsets": _edge(ranges, lambda each: each.end),
        }
        raw = self._spark.read.format(MainstemSource.name()).options(**options).load()
        # A partition without offsets would be read as a whole.
        raw = raw.where(F.col("partition").isin([each.partition for each in ranges]))
        rows = decoded_once(decoded(raw, source))
        if table.bad == "dead":
            rows = with_skipped(rows, state_dir.skipped_events().get(source.name, {}))
        return good_rows(rows)


def _edge(ranges: Sequence[Range], offset: Callable[[Range], int]) -> str:
    return json.dumps({ranges[0].topic: {str(each.partition): offset(each) for each in ranges}})


def _of_topic(edge: dict[str, str], topic: str) -> dict[str, str]:
    """Return the start and end options for one topic; without its offsets it is read whole."""
    found = dict(edge)
    for name in ("startingOffsets", "endingOffsets"):
        if name in edge:
            offsets = json.loads(edge[name])
            del found[name]
            if topic in offsets:
                found[name] = json.dumps({topic: offsets[topic]})
    return found


def observation(number: int) -> str:
    """Return the name of the observation with which Spark reports a source's counts."""
    return f"source{number}"


def _figures(rows: DataFrame, source: Source, *, bad: bool) -> list[Column]:
    wrong = [F.count(BAD).alias("bad")] if bad else []
    if source.format == "changes":
        wrong += commit_times()
    if source.watermark is None:
        return [F.count(F.lit(1)).alias("events"), *wrong]
    good = F.col(BAD).isNull() if bad else F.lit(True)
    at = F.col(f"`{source.watermark[0]}`")
    is_end = good & (at >= F.lit(END_OF_TIME).cast("timestamp"))
    return [
        F.count(F.when(~is_end, 1)).alias("events"),
        *wrong,
        F.min(F.when(good & ~is_end, F.unix_millis(at))).alias("earliest_ms"),
    ]


def commit_times() -> list[Column]:
    """Return the columns that count changes and give 100 quantiles of their commit times.

    Rows read by a snapshot are not counted.
    """
    is_change = F.col(BAD).isNull() & (F.col("op") != "read")
    at = F.when(is_change, F.unix_millis("committed_at"))
    middles = [(2 * each + 1) / (2 * _PARTS) for each in range(_PARTS)]
    return [
        F.count(at).alias("changes"),
        F.percentile_approx(at, middles).alias("committed_ms"),
    ]


def stored_columns(columns: StructType) -> StructType:
    """Return the columns that a sink stores.

    Left out are those between ``apply_changes`` and the sink: whether the row is deleted, the
    position of the newest truncation, and that of the change.
    """
    return StructType([each for each in columns if each.name not in INTERNAL])


def group_of(pipeline: Pipeline, table: Table, into: str | None) -> str:
    """Return the consumer group to which a table's progress is committed."""
    return ".".join(filter(None, (pipeline.name, table.name, into)))
