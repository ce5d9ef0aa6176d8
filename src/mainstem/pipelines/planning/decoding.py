"""Decodes events into rows, or says why an event is bad.

The result has the columns of the schema, ``__bad`` (the reason why the event is bad, or null) and
``__event`` (the original event). Only this module decides which events are bad, so a run and the
audit after it always agree.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import StringType, StructField, StructType

from mainstem.pipelines.definitions.expectations import Expectation
from mainstem.pipelines.definitions.table import INFER, Epoch, Source
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.format.tasks import END_PARTITION
from mainstem.pipelines.planning.avro_values import avro_columns, avro_schema, decoder
from mainstem.pipelines.planning.change_values import ChangeReader, change_columns
from mainstem.pipelines.planning.json_values import (
    ReadValue,
    converted,
    is_absent,
    parse_problem,
    parsed,
    value_of,
    value_problems,
)
from mainstem.pipelines.planning.schemas import json_columns

BAD, EVENT = "__bad", "__event"
LOG_TIME = "_timestamp"
"""Name of the watermark column that stands for the event's timestamp in the log."""
DROPPED, STOPPING = "dropped: ", "stopped: "
"""Prefixes of the reason of events that are left out, or that stop the table."""
END_OF_TIME = "9000-01-01 00:00:00"
"""Upper limit of event times; the row that marks the end of the input has a later time."""
_RAW = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def decoded(raw: DataFrame, source: Source) -> DataFrame:
    """Return rows of the source's schema, with the additional columns ``__bad`` and ``__event``."""
    assert source.schema != INFER
    if source.format == "changes":
        # A tombstone is no change: the delete before it is. It only lets compaction drop the row.
        is_end = F.col("partition") == END_PARTITION
        raw = raw.where(F.col("value").isNotNull() | is_end)
    event = raw.select(F.struct(*_RAW).alias(EVENT))
    match source.format:
        case "json":
            rows = _from_json(event, source)
        case "changes":
            rows = _from_changes(event, source)
        case "avro":
            rows = _from_avro(event, source)
        case "text":
            rows = event.select(
                F.expr("string(__event.value)").alias("value"),
                F.when(F.expr("__event.value is null"), "no value")
                .when(~F.is_valid_utf8(F.expr("string(__event.value)")), "not UTF-8")
                .alias(BAD),
                EVENT,
            )
        case "raw":
            rows = event.select(f"{EVENT}.*", F.lit(None).cast("string").alias(BAD), EVENT)
    return _expected(_checked_time(_with_event(rows, source), source), source)


def with_skipped(rows: DataFrame, skips: Mapping[str, Mapping[str, str]]) -> DataFrame:
    """Mark the events in ``skips`` (partition → offset → reason) as bad."""
    if not skips:
        return rows
    at = F.col(f"{EVENT}.offset")
    reason = F.lit(None).cast("string")
    for number, events in skips.items():
        here = F.lit(None).cast("string")
        for offset, why in events.items():
            here = F.when(at == int(offset), F.lit(why)).otherwise(here)
        reason = F.when(F.col(f"{EVENT}.partition") == int(number), here).otherwise(reason)
    return rows.withColumn(BAD, F.coalesce(F.col(BAD), reason))


def decoded_once(rows: DataFrame) -> DataFrame:
    """Return the same rows, so that filters on them do not make Spark parse the JSON again.

    A run does not need this, as it observes the rows, which has the same effect.
    """
    # Spark pushes filters below projections and repeats from_json there, for each use; only
    # regular expressions and UDFs are too expensive for that [SPARK-47672]. It pushes nothing
    # through an observation.
    return rows.observe("decoded", F.count(F.lit(1)).alias("events"))


def good_rows(rows: DataFrame) -> DataFrame:
    """Return the rows that are not bad, without the columns ``__bad`` and ``__event``."""
    return rows.where(f"{BAD} is null").drop(BAD, EVENT)


def failing_at_bad(rows: DataFrame, *, only_expected: bool = False) -> DataFrame:
    """Return the same rows, so that reading them fails with an error for the first bad event.

    Rows that ``on_fail="drop"`` leaves out do not count. With ``only_expected``, only events do
    that failed an expectation with ``on_fail="stop"``.
    """
    told = F.raise_error(
        F.format_string(
            "bad event: %s; topic %s, partition %d, offset %d",
            F.col(BAD),
            *(F.col(f"{EVENT}.{name}") for name in ("topic", "partition", "offset")),
        )
    ).cast("string")
    bad = F.col(BAD)
    failing = bad.startswith(STOPPING) if only_expected else ~bad.startswith(DROPPED)
    return rows.withColumn(BAD, F.when(failing, told).otherwise(bad))


def _from_json(event: DataFrame, source: Source) -> DataFrame:
    assert source.schema is not None
    text = event.select(F.expr(f"string({EVENT}.value)").alias("__text"), EVENT)
    return _from_text(text, json_columns(source, source.schema), source.epoch)


def _from_changes(event: DataFrame, source: Source) -> DataFrame:
    assert source.schema is not None
    row = json_columns(source, source.schema)
    reader = ChangeReader(row, source.epoch, source.decimals)
    kind = StructType([StructField("text", StringType()), StructField("problem", StringType())])
    # A lambda has no type hints; Spark would try to interpret those of ``read``.
    read = F.udf(lambda value, offset: reader.read(value, offset), kind)  # noqa: PLW0108
    change = read(F.col(f"{EVENT}.value"), F.col(f"{EVENT}.offset"))
    texts = event.select(change.alias("__change"), EVENT)
    texts = texts.select(
        F.col("__change.text").alias("__text"),
        F.col("__change.problem").alias("__problem"),
        EVENT,
    )
    columns = change_columns(row)
    rows = _from_text(texts, columns, source.epoch)
    return rows.select(
        *columns.fieldNames(), F.coalesce(F.col("__problem"), F.col(BAD)).alias(BAD), EVENT
    )


def _from_text(texts: DataFrame, columns: StructType, epoch: Epoch) -> DataFrame:
    """Parse the column ``__text`` as JSON; other columns are kept."""
    kept = [F.col(name) for name in texts.columns if name != "__text"]
    read = texts.select("__text", parsed(F.col("__text"), columns).alias("__parsed"), *kept)
    text, whole = F.col("__text"), F.col("__parsed")
    value, unread = value_of(whole), parse_problem(whole, text, columns)
    # In a projection of its own, as the reasons need the converted values, too.
    fields = {f"__{number}": each for number, each in enumerate(columns)}
    read = read.select(
        *(
            converted(value.getField(each.name), each.dataType, epoch).alias(name)
            for name, each in fields.items()
        ),
        "__text",
        "__parsed",
        *kept,
    )
    bad = (
        F.when(text.isNull(), "no value")
        .when(~F.is_valid_utf8(text), "not UTF-8")
        .when(unread.condition, unread.reason)
    )
    for name, each in fields.items():
        pair = ReadValue(value.getField(each.name), F.col(name))
        for wrong in value_problems(pair, each.dataType, epoch, each.name):
            bad = bad.when(wrong.condition, wrong.reason)
    bad = _missing(bad, columns, value, "")
    return read.select(
        *(F.col(name).alias(each.name) for name, each in fields.items()), bad.alias(BAD), *kept
    )


def _from_avro(event: DataFrame, source: Source) -> DataFrame:
    schema = avro_schema(source)
    columns = avro_columns(schema, f"Avro schema of {source.name!r}")
    kind = StructType([StructField("value", columns), StructField("error", StringType())])
    decode = decoder(schema, source.registry)
    # A lambda has no type hints; Spark would try to interpret those of ``decode``.
    read = F.udf(lambda value: decode(value), kind)  # noqa: PLW0108
    rows = event.select(read(F.col(f"{EVENT}.value")).alias("__parsed"), EVENT)
    return rows.select(
        *_fields("__parsed.value", columns), F.col("__parsed.error").alias(BAD), EVENT
    )


def _fields(parent: str, columns: StructType) -> list[Column]:
    return [F.col(f"{parent}.`{name}`").alias(name) for name in columns.fieldNames()]


def _missing(bad: Column, columns: StructType, parent: Column, path: str) -> Column:
    """Add to ``bad`` (reasons by condition) that a column is null whose type does not allow it."""
    for field in columns:
        at = parent.getField(field.name)
        if not field.nullable:
            bad = bad.when(is_absent(at, field.dataType), f"no value for {path}{field.name}")
            if isinstance(field.dataType, StructType):
                bad = _missing(bad, field.dataType, at, f"{path}{field.name}.")
    return bad


def _with_event(rows: DataFrame, source: Source) -> DataFrame:
    if source.with_event:
        inner = [
            F.col(f"{EVENT}.{name}") for name in _RAW if name not in ("value", "timestampType")
        ]
        rows = rows.withColumn("_event", F.struct(*inner))
    if source.watermark is not None and source.watermark[0] == LOG_TIME:
        rows = rows.withColumn(LOG_TIME, F.col(f"{EVENT}.timestamp"))
    return rows


def _expected(rows: DataFrame, source: Source) -> DataFrame:
    """Return the rows, with ``__bad`` set where an expectation of the source does not hold."""
    if not source.expectations:
        return rows
    is_end = F.col(f"{EVENT}.partition") == END_PARTITION
    reason = F.when(is_end, None).when(F.col(BAD).isNotNull(), F.col(BAD))
    for each in source.expectations:
        holds = F.coalesce(F.expr(each.condition).cast("boolean"), F.lit(False))
        reason = reason.when(~holds, failed_expectation(each))
    return rows.withColumn(BAD, reason)


def failed_expectation(expectation: Expectation) -> str:
    """Return the text that ``__bad`` has for events that do not meet an expectation."""
    prefix = {"dead": "", "drop": DROPPED, "stop": STOPPING}[expectation.on_fail]
    return f"{prefix}expectation failed: {expectation.name}"


def _checked_time(rows: DataFrame, source: Source) -> DataFrame:
    """Return the rows, with ``__bad`` set where the event time is missing or far in the future."""
    if source.watermark is None:
        return rows
    name = source.watermark[0]
    found = next((field for field in rows.schema if field.name == name), None)
    if found is None or found.dataType.typeName() != "timestamp":
        kind = "there is no such column" if found is None else f"it is {found.dataType.typeName()}"
        raise InvalidDefinition(
            f"source {source.name!r}: the watermark's column {name!r} must be a timestamp, and "
            f"{kind}; {LOG_TIME!r} is the log's own timestamp"
        )
    at = F.col(f"`{name}`")
    is_end = F.col(f"{EVENT}.partition") == END_PARTITION
    reason = (
        F.when(is_end, None)
        .when(F.col(BAD).isNotNull(), F.col(BAD))
        .when(at.isNull(), f"no time in {name}")
        .when(at >= F.lit(END_OF_TIME).cast("timestamp"), f"{name} is after {END_OF_TIME[:4]}")
    )
    moment = F.when(is_end, F.col(f"{EVENT}.timestamp")).otherwise(at)
    return rows.withColumns({BAD: reason, name: moment})
