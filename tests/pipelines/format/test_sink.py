"""What the sink writes, asked as Spark asks it, on a real server; exactly once."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark import TaskContext
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)
from tests.pipelines.format.topics import PATIENCE_S, Topic

from mainstem.core.errors import Fenced, InvalidSetting, UnknownPartition, Unreachable
from mainstem.pipelines.format.committed_batch import Mark, OtherRows, is_written
from mainstem.pipelines.format.event_rows import check_columns
from mainstem.pipelines.format.options import sink_options
from mainstem.pipelines.format.sink import BatchSink, StreamSink
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.format.staging import LostRows, Staged, stage
from mainstem.remote.transactions import TransactionalProducer

TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "array<string>": ArrayType(StringType()),
}


@pytest.fixture
def topic(kafka: str, request: pytest.FixtureRequest) -> Topic:
    """A topic named after the test."""
    return Topic(kafka, request.node.name.replace("[", ".").replace("]", "")[:200])


def rows(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(values)})


def stream(topic: Topic, **options: str) -> StreamSink:
    given = {"address": topic.address, "topic": topic.name, "pipeline": topic.name, **options}
    return StreamSink(sink_options(given))


def batch(topic: Topic, **options: str) -> BatchSink:
    return BatchSink(sink_options({"address": topic.address, "topic": topic.name, **options}))


def staged(run: str, *values: str) -> Staged:
    return stage(iter([rows(*values)]), "/nowhere", run)


# What is written


def test_every_column_is_written(topic: Topic) -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    table = pa.RecordBatch.from_pydict(
        {
            "key": [b"k", None],
            "value": [b"v", None],
            "headers": [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None],
            "topic": [None, topic.name],
            "partition": [0, None],
            "timestamp": pa.array([moment, None], pa.timestamp("us", tz="UTC")),
        },
        schema=pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("timestamp", pa.timestamp("us", tz="UTC")),
            ]
        ),
    )
    sink = stream(topic)

    sink.commit([sink.write(iter([table]))], 0)

    consumer = Consumer({"bootstrap.servers": topic.address, "group.id": "looking"})
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    first, second = consumer.consume(2, PATIENCE_S)
    consumer.close()
    assert (first.key(), first.value()) == (b"k", b"v")
    assert first.headers() == [("a", b"1"), ("a", None)]
    assert first.timestamp()[1] == moment.timestamp() * 1000
    assert (second.key(), second.value(), second.headers()) == (None, None, None)


def test_a_batch_of_many_tasks_becomes_visible_as_a_whole(topic: Topic) -> None:
    sink = stream(topic)

    messages = [sink.write(iter([rows(str(task))])) for task in range(5)]
    before = topic.values()
    sink.commit([*messages, None, sink.write(iter([]))], 0)

    assert before == []
    assert topic.values() == ["0", "1", "2", "3", "4"]


def test_a_task_with_many_rows_puts_them_into_a_file(topic: Topic, tmp_path: Path) -> None:
    sink = stream(topic, stagingLocation=str(tmp_path / "aside"))
    large = [rows(*(f"{part}-{number:01000}" for number in range(1000))) for part in range(6)]

    message = sink.write(iter(large))

    assert isinstance(message, Staged)
    assert len(list((tmp_path / "aside").iterdir())) == 1
    assert message.data == b""
    sink.commit([message], 0)
    assert len(topic.values()) == 6000
    assert list((tmp_path / "aside").iterdir()) == []


def test_what_a_failed_batch_put_aside_is_deleted(topic: Topic, tmp_path: Path) -> None:
    sink = stream(topic, stagingLocation=str(tmp_path))
    message = sink.write(iter([rows("x" * 1000) for _ in range(6000)]))

    sink.abort([message, None], 0)

    assert list(tmp_path.iterdir()) == []
    assert topic.values() == []


def test_rows_that_the_driver_cannot_find_are_an_error(topic: Topic) -> None:
    with pytest.raises(LostRows, match="stagingLocation"):
        stream(topic).commit([Staged(5, b"", "/nowhere/rows.arrow")], 0)

    assert topic.values() == []


# Exactly once


def test_a_batch_that_comes_again_is_not_written_again(topic: Topic) -> None:
    for number in (0, 0, 1, 1, 1, 2):
        # Each time another process, as after a crash.
        stream(topic).commit([staged("run", f"batch {number}")], number)

    assert topic.values() == ["batch 0", "batch 1", "batch 2"]


def test_without_the_guard_it_would_be(topic: Topic) -> None:
    for _ in range(2):
        sink = batch(topic)
        sink.commit([staged("", "batch 0")])

    assert topic.values() == ["batch 0", "batch 0"]


def test_what_a_crash_left_half_written_is_never_seen(topic: Topic) -> None:
    left = Producer(
        {
            "bootstrap.servers": topic.address,
            "log_level": 0,
            "transactional.id": f"mainstem-sink-{topic.name}",
        }
    )
    left.init_transactions(PATIENCE_S)
    left.begin_transaction()
    left.produce(topic.name, "half of batch 0")
    left.flush(PATIENCE_S)

    stream(topic).commit([staged("run", "half of batch 0", "other half")], 0)

    assert topic.values() == ["half of batch 0", "other half"]


def test_a_run_that_was_replaced_can_write_no_more(topic: Topic) -> None:
    cluster = sink_options({"address": topic.address}).server.cluster()
    old = TransactionalProducer(cluster, f"mainstem-sink-{topic.name}", timeout_ms=30_000)
    old.take_over()

    stream(topic).commit([staged("run", "new")], 0)

    with pytest.raises(Fenced, match="only one run at a time"):
        old.write([], lambda: "")
    old.close()
    assert topic.values() == ["new"]


def test_a_new_checkpoint_begins_a_new_run(topic: Topic) -> None:
    for run in ("first", "second"):
        for number in range(2):
            stream(topic).commit([staged(run, f"{run} {number}")], number)

    assert topic.values() == ["first 0", "first 1", "second 0", "second 1"]


def test_without_a_name_the_query_is_its_own(topic: Topic) -> None:
    sink = StreamSink(sink_options({"address": topic.address, "topic": topic.name}))

    for _ in range(2):
        sink.commit([staged("some-query-id", "x")], 7)

    assert topic.values() == ["x"]


def test_a_batch_of_foreach_batch_is_written_once(topic: Topic) -> None:
    for number in ("4", "4", "5"):
        sink = batch(topic, pipeline=topic.name, batch=number)
        sink.commit([staged("", number)])

    with pytest.raises(InvalidSetting, match="give the pipeline a new name"):
        batch(topic, pipeline=topic.name, batch="1").commit([staged("", "1")])
    assert topic.values() == ["4", "5"]


@pytest.mark.parametrize(
    ("last", "number", "run", "expected"),
    [
        (None, 0, "a", False),
        (Mark(3, "a"), 3, "a", True),
        (Mark(3, "a"), 2, "a", True),
        (Mark(3, "a"), 4, "a", False),
        (Mark(3, "a"), 0, "b", False),
        (Mark(3, "a"), 3, "b", False),
        (Mark(3), 3, "", True),
        (Mark(3), 4, "", False),
    ],
)
def test_a_mark_tells_what_has_been_written(
    last: Mark | None, number: int, run: str, expected: bool
) -> None:
    assert is_written(last, number, run) is expected


# Task by task


class Task:
    """Stands in for what Spark tells a task."""

    def __init__(self, number: int, batch_id: int) -> None:
        self._number, self._batch = number, batch_id

    def partitionId(self) -> int:  # noqa: N802
        return self._number

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(self._batch)}.get(name)


@pytest.fixture
def as_task(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Makes this process one of Spark's tasks."""

    def become(number: int, batch_id: int) -> None:
        task = Task(number, batch_id)
        monkeypatch.setattr(TaskContext, "get", classmethod(lambda _: task))

    return become


def test_in_parallel_mode_every_task_writes_once(
    topic: Topic, as_task: Callable[[int, int], None]
) -> None:
    for number, task in [(0, 0), (0, 1), (0, 1), (0, 0), (1, 0), (1, 0)]:
        as_task(task, number)
        stream(topic, parallel="true").write(iter([rows(f"{number}.{task}")]))
    stream(topic, parallel="true").commit([Staged(0, b"", None, "q")], 1)

    assert topic.values() == ["0.0", "0.1", "1.0"]


def test_a_task_that_comes_again_with_other_rows_is_refused(
    topic: Topic, as_task: Callable[[int, int], None]
) -> None:
    as_task(0, 3)
    stream(topic, parallel="true").write(iter([rows("a", "b")]))

    with pytest.raises(OtherRows, match="not deterministic"):
        stream(topic, parallel="true").write(iter([rows("a", "c")]))

    assert topic.values() == ["a", "b"]


# Refusals


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("value string, amount int", "no column 'amount'"),
        ("key string", "no column value"),
        ("value int", "binary or string, not int"),
        ("value string, headers map<string,string>", "array<struct"),
        ("value string, headers array<string>", "array<struct"),
        ("value string, partition string", "'partition' must be"),
    ],
)
def test_rows_that_cannot_be_events_are_refused(columns: str, says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        check_columns(parsed(columns), "orders")


def parsed(columns: str) -> StructType:
    found = StructType()
    for each in columns.split(", "):
        name, kind = each.split(" ")
        found = found.add(name, TYPES[kind])
    return found


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(InvalidSetting, match="only added to"):
        MainstemSource({"topic": "orders"}).writer(parsed("value string"), overwrite=True)


def test_rows_need_a_topic(topic: Topic) -> None:
    with pytest.raises(InvalidSetting, match="no topic: set option"):
        check_columns(parsed("value string"), None)
    sink = StreamSink(sink_options({"address": topic.address, "pipeline": topic.name}))
    nameless = pa.RecordBatch.from_pydict({"value": ["x"], "topic": pa.array([None], pa.string())})
    with pytest.raises(InvalidSetting, match="a row has no topic"):
        sink.commit([sink.write(iter([nameless]))], 0)


def test_an_event_that_is_refused_takes_its_batch_with_it(topic: Topic) -> None:
    far = pa.RecordBatch.from_pydict(
        {"value": ["good", "bad"], "partition": pa.array([0, 77], pa.int32())}
    )

    with pytest.raises(UnknownPartition):
        stream(topic).commit([stream(topic).write(iter([far]))], 0)
    stream(topic).commit([staged("run", "next")], 0)

    assert topic.values() == ["next"]


def test_nobody_there_is_said() -> None:
    sink = StreamSink(
        sink_options(
            {"address": "127.0.0.1:1", "topic": "t", "pipeline": "p", "timeoutSeconds": "2"}
        )
    )

    with pytest.raises(Unreachable):
        sink.commit([staged("run", "x")], 0)
