"""The source and the sink inside of Spark: batch, stream, restarts, and how errors look."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.long_runs import LONG
from tests.pipelines.format.topics import FIRST_MS, PATIENCE_S, Topic
from tests.pipelines.sample_events import forget_last_commit

Make = Callable[[str], Topic]


@pytest.fixture
def make(kafka: str, request: pytest.FixtureRequest) -> Make:
    """Makes topics of two partitions, named after the test."""
    name = request.node.name.replace("[", ".").replace("]", "")
    return lambda suffix: Topic(kafka, f"{name}-{suffix}", 2)


def read_stream(spark: SparkSession, topic: Topic, **options: str) -> DataFrame:
    reader = spark.readStream.format("mainstem").option("address", topic.address)
    return reader.options(**options).load(topic.name)


def write(frame: DataFrame, to: Topic, checkpoint: Path, **options: str) -> StreamingQuery:
    """Run a query into a topic until everything there is has been read."""
    writer = frame.writeStream.format("mainstem").option("address", to.address)
    return run(writer.option("topic", to.name).options(**options), checkpoint)


def run(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    while True:
        query = writer.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            # Spark gives a new process ten seconds, which a busy machine may not.
            if "Python worker failed to connect back" not in str(error):
                raise
        else:
            return query


any_broker = pytest.mark.parametrize(
    "kafka",
    ["ours", *([pytest.param("apache", marks=pytest.mark.peers)] if LONG else [])],
    indirect=True,
)
"""What the broker has no part in; with Apache Kafka, too, only with ``--long``."""


def values(topic: Topic) -> list[str]:
    return sorted(value for partition in (0, 1) for _, value in topic.events(partition))


def test_where_there_is_nothing_to_read_the_table_is_empty(spark: SparkSession, make: Make) -> None:
    topic = make("in")
    reader = spark.read.format("mainstem").option("address", topic.address)

    assert reader.load(topic.name).count() == 0

    topic.fill(["v"], 0, at_ms=FIRST_MS)
    none = json.dumps({topic.name: {"0": 1, "1": 0}})
    offsets = reader.option("startingOffsets", none).option("endingOffsets", none)
    assert offsets.load(topic.name).collect() == []
    assert reader.load(topic.name).where("partition = 7").collect() == []


def test_a_topic_is_a_table(spark: SparkSession, make: Make) -> None:
    topic = make("in")
    topic.fill([f"v{n}" for n in range(100)], 0, at_ms=FIRST_MS)
    topic.fill([f"w{n}" for n in range(100)], 1, at_ms=FIRST_MS)

    table = spark.read.format("mainstem").option("address", topic.address).load(topic.name)
    narrowed = table.where("partition = 1 and offset >= 90 and timestamp > '2023-11-14'")

    assert [field.simpleString() for field in table.schema] == [
        "key:binary",
        "value:binary",
        "topic:string",
        "partition:int",
        "offset:bigint",
        "timestamp:timestamp",
        "timestampType:int",
        "headers:array<struct<key:string,value:binary>>",
    ]
    assert table.count() == 200
    found = narrowed.selectExpr("cast(value as string) value", "topic", "offset").collect()
    assert [tuple(row) for row in found] == [(f"w{n}", topic.name, n) for n in range(90, 100)]


@any_broker
def test_a_session_that_nobody_told_knows_the_format(spark: SparkSession, make: Make) -> None:
    topic = make("in")
    topic.fill(["a", "b"], 0)

    table = spark.newSession().read.format("mainstem").option("address", topic.address)

    assert table.load(topic.name).count() == 2


def test_a_stream_goes_on_from_its_checkpoint_into_a_topic(
    spark: SparkSession, make: Make, tmp_path: Path
) -> None:
    source, target = make("in"), make("out")
    source.fill([f"a{n}" for n in range(50)], 0)
    frame = read_stream(spark, source, maxRowsPerTrigger="30", group="progress")

    first = write(frame.select("key", "value"), target, tmp_path, pipeline=target.name)
    source.fill([f"b{n}" for n in range(50)], 1)
    second = write(frame.select("key", "value"), target, tmp_path, pipeline=target.name)

    assert values(target) == sorted([f"{x}{n}" for x in "ab" for n in range(50)])
    # Where a batch ends also depends on when its events were written.
    sizes = [each.numInputRows for each in first.recentProgress]
    assert sum(sizes) == 50
    assert max(sizes) <= 30
    progress = second.lastProgress
    assert progress is not None
    ends = json.loads(progress.sources[0].endOffset)["offsets"][source.name]
    assert ends == {"0": 50, "1": 50}


@pytest.mark.parametrize("parallel", ["false", "true"])
def test_a_batch_done_again_after_a_crash_is_written_once(
    spark: SparkSession, make: Make, tmp_path: Path, parallel: str
) -> None:
    source, target = make("in"), make("out")
    source.fill([f"v{n}" for n in range(40)], 0)
    source.fill([f"w{n}" for n in range(40)], 1)
    frame = read_stream(spark, source).select("value")
    write(frame, target, tmp_path, parallel=parallel)

    forget_last_commit(tmp_path)
    again = write(frame, target, tmp_path, parallel=parallel)

    # Unnamed, it writes under the id that Spark keeps in the checkpoint.
    marks = f"mainstem-sink-{again.id}{'.0' if parallel == 'true' else ''}"
    listed = source.admin.list_consumer_groups().result(PATIENCE_S)
    assert marks in {group.group_id for group in listed.valid}
    assert sum(each.numInputRows for each in again.recentProgress) == 80
    assert values(target) == sorted([f"{x}{n}" for x in "vw" for n in range(40)])


@any_broker
def test_without_the_guard_it_would_be_written_twice(
    spark: SparkSession, make: Make, tmp_path: Path
) -> None:
    source, target = make("in"), make("out")
    source.fill(["v"], 0)

    def unguarded(rows: DataFrame, _: int) -> None:
        save(rows, target)

    writer = read_stream(spark, source).select("value").writeStream.foreachBatch(unguarded)

    run(writer, tmp_path)
    forget_last_commit(tmp_path)
    run(writer, tmp_path)

    assert values(target) == ["v", "v"]


def save(rows: DataFrame, target: Topic, **options: str) -> None:
    writer = rows.write.format("mainstem").option("address", target.address).mode("append")
    writer.options(**options).save(target.name)


def test_a_table_is_written_as_a_whole(spark: SparkSession, make: Make) -> None:
    target = make("out")
    numbers = spark.range(0, 1000, 1, 4)

    save(numbers.select(F.col("id").cast("string").alias("value")), target, compression="zstd")

    assert values(target) == sorted(str(n) for n in range(1000))


@any_broker
def test_a_failing_task_leaves_nothing_behind(spark: SparkSession, make: Make) -> None:
    target = make("out")
    broken = spark.range(0, 100, 1, 2).select(
        F.when(F.col("id") < 99, F.col("id").cast("string"))
        .otherwise(F.raise_error(F.lit("no")).cast("string"))
        .alias("value")
    )

    with pytest.raises(PySparkException):
        save(broken, target)

    assert values(target) == []


def test_a_user_reads_what_to_do_about_lost_data(
    spark: SparkSession, make: Make, tmp_path: Path
) -> None:
    source, target = make("in"), make("out")
    source.fill(["a"] * 10, 0)
    write(read_stream(spark, source).select("value"), target, tmp_path)
    source.fill(["b"] * 10, 0)
    source.trim(15)

    with pytest.raises(StreamingQueryException, match="failOnDataLoss to false"):
        write(read_stream(spark, source).select("value"), target, tmp_path)
    lenient = read_stream(spark, source, failOnDataLoss="false").select("value")
    write(lenient, target, tmp_path)

    assert values(target) == ["a"] * 10 + ["b"] * 5


@any_broker
def test_a_misspelled_option_is_refused(spark: SparkSession, make: Make) -> None:
    topic = make("in")

    with pytest.raises(PySparkException, match="has no option 'startingoffset'"):
        spark.read.format("mainstem").options(address=topic.address, startingOffset="latest").load(
            topic.name
        ).count()
