"""Measures what it costs to read JSON values exactly, beside Spark's bare from_json.

    python -m bench.json_decoder             five minutes; writes docs/benchmarks/json-decoder.md
    python -m bench.json_decoder --explain   prints the physical plans, and measures nothing

How this works: the same events are in Parquet files of Spark's own, which are quick to read, for
two schemas: columns that from_json reads as they are, and columns that are read in two steps
(decimals, timestamps, dates). One event in a thousand is not JSON. The decoders take turns, round
by round, as a pipeline uses them: a run counts all events and bad events and passes on the good
ones, here to Spark's sink that keeps nothing; the audit after a batch reads it again for bad
events. The first rounds, in which the JVM warms up, are not counted.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from bench.kafka.page import table
from bench.spark import cpu_s
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StringType, StructField, StructType

from mainstem.cli.benchmarks.report import machine
from mainstem.pipelines.definitions.table import Source
from mainstem.pipelines.planning.decoding import BAD, EVENT, decoded, decoded_once, good_rows
from mainstem.pipelines.planning.schemas import json_columns
from mainstem.pipelines.session import end_session, spark_session

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "json-decoder.md"
WARM_UP = 2
FILES = 4
PLAIN = Source("events", "id bigint, user string, page string, ms bigint, score double, ok boolean")
TYPED = Source(
    "events", "id bigint, user string, amount decimal(12,2), at timestamp, day date, score double"
)
RAW = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
CORRUPT = "__corrupt"

Decoder = Callable[[DataFrame, Source], DataFrame]


class Figure(msgspec.Struct):
    """Seconds that each round took: of the clock, and of processors."""

    decoder: str
    schema: str
    use: str
    seconds: list[float]
    cpu_s: list[float]


def bare(raw: DataFrame, source: Source) -> DataFrame:
    """Decode with from_json and look at nothing but what it could not read at all."""
    assert source.schema is not None
    columns = json_columns(source, source.schema)
    wanted = StructType([*columns.fields, StructField(CORRUPT, StringType())])
    text = F.expr(f"string({EVENT}.value)")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = raw.select(F.struct(*RAW).alias(EVENT)).select(
        text.alias("__text"), F.from_json(text, wanted, options).alias("__parsed"), EVENT
    )
    bad = (
        F.when(F.col("__text").isNull(), "no value")
        .when(~F.is_valid_utf8("__text"), "not UTF-8")
        .when(F.get_json_object("__text", "$").isNull(), "not JSON")
        .when(
            F.col("__parsed").isNull() | F.col(f"__parsed.{CORRUPT}").isNotNull(),
            f"does not fit the schema {columns.simpleString()[7:-1]}",
        )
    )
    fields = [F.col(f"__parsed.`{name}`").alias(name) for name in columns.fieldNames()]
    return parsed.select(*fields, bad.alias(BAD), EVENT)


DECODERS: dict[str, Decoder] = {"from_json": bare, "mainstem": decoded}


def counted(rows: DataFrame) -> DataFrame:
    """Return good rows; all and the bad are counted on the way, as in a run."""
    seen = rows.observe("seen", F.count(F.lit(1)).alias("events"), F.count(BAD).alias("bad"))
    return good_rows(seen)


def bad_events(rows: DataFrame) -> DataFrame:
    """Return bad events as an audit does."""
    return rows.where(f"{BAD} is not null").select(f"{EVENT}.*", BAD)


USES: dict[str, Callable[[DataFrame], DataFrame]] = {"run": counted, "audit": bad_events}


def fill(spark: SparkSession, scratch: Path, rows: int) -> dict[str, DataFrame]:
    """Write the events, and return them by the name of their schema."""
    number = spark.range(rows, numPartitions=FILES)
    user = F.format_string("user-%05d", F.col("id") % 10_000).alias("user")
    score = (F.rand(7) * 100).alias("score")
    at = F.timestamp_millis(F.lit(1_794_729_600_000) + F.col("id") * 250)
    texts = {
        "plain": F.struct(
            "id",
            user,
            F.concat(F.lit("/shop/item/"), F.col("id") % 777).alias("page"),
            (F.col("id") % 1999).alias("ms"),
            score,
            (F.col("id") % 3 == 0).alias("ok"),
        ),
        "typed": F.struct(
            "id",
            user,
            F.round(F.rand(8) * 10_000, 2).cast("decimal(12,2)").alias("amount"),
            F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("at"),
            F.date_format(at, "yyyy-MM-dd").alias("day"),
            score,
        ),
    }
    found = {}
    for name, value in texts.items():
        text = F.when(F.col("id") % 1000 == 999, F.lit('{"id": 1')).otherwise(F.to_json(value))
        raw = number.select(
            F.col("id").cast("string").cast("binary").alias("key"),
            text.cast("binary").alias("value"),
            F.lit("events").alias("topic"),
            F.lit(0).alias("partition"),
            F.col("id").alias("offset"),
            at.alias("timestamp"),
            F.lit(0).alias("timestampType"),
            F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
        )
        raw.write.parquet(str(scratch / name))
        found[name] = spark.read.parquet(str(scratch / name))
    return found


def measure(frames: dict[str, DataFrame], rounds: int) -> list[Figure]:
    """Let the decoders take turns."""
    figures = [
        Figure(decoder, schema, use, [], [])
        for schema in frames
        for use in USES
        for decoder in DECODERS
    ]
    for number in range(-WARM_UP, rounds):
        for each in figures:
            rows = made(frames, each)
            began, before_s = time.perf_counter(), cpu_s()
            rows.write.format("noop").mode("overwrite").save()
            seconds, taken_s = time.perf_counter() - began, cpu_s() - before_s
            if number >= 0:
                each.seconds.append(seconds)
                each.cpu_s.append(taken_s)
            words = f"{each.schema} {each.use} {each.decoder}"
            print(f"{words}: {seconds:.2f} s, {taken_s:.2f} s of processors", flush=True)
    return figures


def made(frames: dict[str, DataFrame], figure: Figure) -> DataFrame:
    """Return what a decoder makes of events for one use."""
    source = PLAIN if figure.schema == "plain" else TYPED
    rows = DECODERS[figure.decoder](frames[figure.schema], source)
    if figure.use == "audit" and figure.decoder == "mainstem":
        rows = decoded_once(rows)
    return USES[figure.use](rows)


def page(figures: list[Figure], rows: int, rounds: int) -> str:
    """Return what docs/benchmarks/json-decoder.md says."""
    lines = []
    for first, second in zip(figures[::2], figures[1::2], strict=True):
        clock = [a / b for a, b in zip(first.seconds, second.seconds, strict=True)]
        cpu = [a / b for a, b in zip(first.cpu_s, second.cpu_s, strict=True)]
        lines.append(
            [
                first.schema,
                first.use,
                f"{rows / statistics.median(first.seconds):,.0f}",
                f"{rows / statistics.median(second.seconds):,.0f}",
                f"{statistics.median(clock):.2f}",
                f"{min(clock):.2f} - {max(clock):.2f}",
                f"{statistics.median(cpu):.2f}",
            ]
        )
    heads = ["columns", "use", "from_json, events/s", "mainstem, events/s"]
    heads += ["ratio", "of single rounds", "ratio of CPU"]
    return f"""# What exact JSON values cost

    {" ".join(["python -m bench.json_decoder", *sys.argv[1:]])}

writes this page. Machine: {machine()}. Spark's `from_json` rounds decimals, wraps numbers that
are too large, and accepts any text after the first value; pipelines read the same values exactly,
or treat the event as bad. Both decode {rows:,} events from Parquet files with `local[2]`, into a
sink that discards them; median of {rounds} rounds in which both decoders took turns, after
{WARM_UP} rounds to warm up. In the use "run", a batch is decoded and counted, and all good events
go to the sink; in the use "audit", a batch that has bad events is read again, and only these go
to the sink. If the ratio is over 1, mainstem's exact decoder is faster: it needs no second parser
to find values that are not JSON. As other programs shared the cores, compare the ratio of
processor time.

- plain: `{PLAIN.schema}`
- typed: `{TYPED.schema}`

{table(heads, lines)}
"""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--explain", action="store_true")
    given = parser.parse_args()
    spark = spark_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as scratch:
        try:
            frames = fill(spark, Path(scratch), 1000 if given.explain else given.rows)
            if given.explain:
                for each in measure(frames, 0):
                    print(f"\n=== {each.schema} {each.use} {each.decoder}")
                    made(frames, each).explain("formatted")
                return
            figures = measure(frames, given.rounds)
        finally:
            end_session(spark)
    PAGE.write_text(page(figures, given.rows, given.rounds))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
