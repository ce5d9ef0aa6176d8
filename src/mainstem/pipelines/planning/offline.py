"""Plans tables without a broker: as a stream, to check it, or as a batch over events of a test.

How this works: each topic is replaced by a DataFrame with the columns of events: an empty stream,
or the events that the caller passes. Decoding and the table's query are the same as in a run.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import StructType

from mainstem.pipelines.definitions.table import INFER, Pipeline, Source, Table
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.format.schema import COLUMNS
from mainstem.pipelines.planning.decoding import BAD, DROPPED, EVENT, decoded, good_rows
from mainstem.pipelines.planning.planner import Bounds, Planner, observation
from mainstem.pipelines.planning.schemas import inferred
from mainstem.pipelines.spark.error_messages import cause_of
from mainstem.pipelines.state.table_state import StateDirectory

EventValue = Mapping[str, object] | str | bytes
"""An event's value: a dict, text or bytes; if the source is a table, a row as a dict."""


class SchemaNotInferred(InvalidDefinition):
    """Raised if a plan cannot be checked yet, as the first run has to infer a source's schema."""


class OfflinePlanner:
    """Plans and runs tables without reading any topic."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._planner = Planner(spark, pipeline, "", None, Bounds())

    def stream(self, table: Table, state_dir: StateDirectory | None = None) -> DataFrame:
        """Return a table's streaming DataFrame, over empty topics; raises InvalidDefinition."""
        inputs = []
        for number, source in enumerate(table.sources):
            above = self._pipeline.above(table, source.name)
            if above is None:
                raw = self._empty_stream(_columns())
                rows = good_rows(decoded(raw, self._known(source, state_dir)))
            elif above.keeps_rows:
                rows = self._empty_stream(self._stream_schema(above, state_dir))
            else:
                rows = self._spark.createDataFrame([], self._stream_schema(above, state_dir))
            if rows.isStreaming:
                # As in a run, where the observation separates the decoder from the query.
                rows = rows.observe(observation(number), F.count(F.lit(1)).alias("events"))
            if source.watermark and rows.isStreaming:
                rows = rows.withWatermark(*source.watermark)
            inputs.append(rows)
        return self._applied(table, inputs)

    def batch(
        self, table: Table, given: Mapping[str, Sequence[EventValue]]
    ) -> list[dict[str, object]]:
        """Return the rows that a table makes of ``given``, a list of events for each topic.

        Raises PipelineFailed at a bad event.
        """
        unknown = set(given) - {source.name for source in table.sources}
        if unknown:
            raise InvalidDefinition(
                f"table {table.name!r} has no source {min(unknown)!r}; it has "
                f"{', '.join(source.name for source in table.sources)}"
            )
        inputs = [
            self._given(table, source, given.get(source.name, ())) for source in table.sources
        ]
        try:
            found = self._applied(table, inputs).collect()
        except PySparkException as error:
            cause = cause_of(error, self._pipeline.file)
            raise PipelineFailed(f"table {table.name!r}: {cause}") from error
        return [{name: _aware(each) for name, each in row.asDict(True).items()} for row in found]

    def _given(self, table: Table, source: Source, events: Sequence[EventValue]) -> DataFrame:
        above = self._pipeline.above(table, source.name)
        if above is not None:
            columns = self._stream_schema(above, None)
            return self._spark.createDataFrame([_row(each) for each in events], columns)
        raw = [
            (None, _bytes(each), source.name, 0, offset, _NOW, 0, None)
            for offset, each in enumerate(events)
        ]
        frame = self._spark.createDataFrame(raw, COLUMNS)
        if source.schema == INFER:
            sample = frame.select(F.expr("string(value)").alias("value"))
            schema = inferred(sample, f"source {source.name!r}")
            source = msgspec.structs.replace(source, schema=schema)
        rows = decoded(frame, source)
        wrong = rows.where(~F.col(BAD).startswith(DROPPED)).select(BAD, f"{EVENT}.offset").first()
        if wrong is not None:
            raise PipelineFailed(
                f"event {wrong['offset']} of {source.name!r} is bad: {wrong[BAD]}: "
                f"{events[wrong['offset']]!r:.200}"
            )
        return good_rows(rows)

    def _known(self, source: Source, state_dir: StateDirectory | None) -> Source:
        if source.schema != INFER:
            return source
        kept = state_dir.schemas() if state_dir else {}
        if source.name not in kept:
            raise SchemaNotInferred(
                f"source {source.name!r}: its schema is inferred by the first run; the plan is "
                "checked then"
            )
        return msgspec.structs.replace(source, schema=kept[source.name])

    def _stream_schema(self, above: Table, state_dir: StateDirectory | None) -> StructType:
        beside = StateDirectory(state_dir.directory.parent / above.name) if state_dir else None
        return self.stream(above, beside).schema

    def _empty_stream(self, columns: StructType) -> DataFrame:
        # It is never started, so it has no rows.
        rate = self._spark.readStream.format("rate").load()
        return rate.select(
            *(F.lit(None).cast(each.dataType).alias(each.name) for each in columns.fields)
        )

    def _applied(self, table: Table, inputs: Sequence[DataFrame]) -> DataFrame:
        try:
            result = self._planner.apply_query(table, inputs)
        except PySparkException as error:
            cause = cause_of(error, self._pipeline.file)
            raise InvalidDefinition(f"table {table.name!r}: {cause}") from error
        if not isinstance(result, DataFrame):
            raise InvalidDefinition(
                f"table {table.name!r}: its function returns {type(result).__name__}, "
                "not a DataFrame"
            )
        return result


_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _columns() -> StructType:
    columns = StructType.fromDDL(COLUMNS)
    assert isinstance(columns, StructType)
    return columns


def _bytes(given: EventValue) -> bytes:
    if isinstance(given, bytes):
        return given
    text = given if isinstance(given, str) else json.dumps(given, default=_plain)
    return text.encode()


def _row(given: EventValue) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise InvalidDefinition(f"rows of a table must be dicts, not {given!r:.100}")
    return dict(given)


def _plain(value: object) -> str:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise InvalidDefinition(f"{value!r:.100} cannot be written as JSON; use text or a number")


def _aware(value: object) -> object:
    """Return a value with time zones added: Spark returns naive times, in the local zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {name: _aware(each) for name, each in value.items()}
    return [_aware(each) for each in value] if isinstance(value, list) else value
