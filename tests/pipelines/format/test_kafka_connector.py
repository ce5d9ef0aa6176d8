"""Spark's own Kafka connector, unmodified, on our server; it agrees with format("mainstem")."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipelines.conftest import CONNECTOR
from tests.pipelines.format.topics import Topic

pytestmark = pytest.mark.peers


@pytest.fixture
def topics(kafka: str, request: pytest.FixtureRequest) -> tuple[Topic, Topic]:
    """One to read, with transactions in it, and one to write."""
    if not list(CONNECTOR.glob("*.jar")):
        pytest.skip("its jars are not in .cache: run .ci/run where Maven can be reached")
    name = request.node.name.replace("[", ".").replace("]", "")
    source, target = Topic(kafka, f"{name}-in", 2), Topic(kafka, f"{name}-out")
    source.fill([f"v{n}" for n in range(100)], 0)
    source.transaction([f"w{n}" for n in range(10)], commit=True, partition=1)
    source.transaction(["never"], commit=False, partition=1)
    return source, target


def options(topic: Topic) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": topic.address,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }


def rows(table: DataFrame) -> list[tuple[object, ...]]:
    columns = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    return sorted(tuple(row) for row in table.select(*columns).collect())


def test_it_reads_and_writes_tables(spark: SparkSession, topics: tuple[Topic, Topic]) -> None:
    source, target = topics
    theirs = spark.read.format("kafka").options(**options(source)).load()
    ours = spark.read.format("mainstem").option("address", source.address).load(source.name)

    writer = theirs.select("key", "value").write.format("kafka")
    writer.options(**{"kafka.bootstrap.servers": target.address, "topic": target.name}).save()

    assert rows(theirs) == rows(ours)
    assert len(rows(ours)) == 110
    assert len(target.values()) == 110


def test_it_reads_and_writes_streams(
    spark: SparkSession, topics: tuple[Topic, Topic], tmp_path: Path
) -> None:
    source, target = topics
    stream = spark.readStream.format("kafka").options(**options(source)).load()

    writer = stream.select("key", "value").writeStream.format("kafka")
    writer.options(
        **{
            "kafka.bootstrap.servers": target.address,
            "topic": target.name,
            "checkpointLocation": str(tmp_path),
        }
    ).trigger(availableNow=True).start().awaitTermination()

    assert sorted(target.values()) == sorted(
        [f"v{n}" for n in range(100)] + [f"w{n}" for n in range(10)]
    )
