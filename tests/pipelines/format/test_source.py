"""What the source plans and reads, asked as Spark asks it, on a real server."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.in_process_server import serving
from tests.pipelines.format.topics import (
    FIRST_MS,
    PATIENCE_S,
    Topic,
    batch,
    rows,
    stream,
    values,
)

from mainstem.core.errors import (
    InvalidSetting,
    OffsetOutOfRange,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
)
from mainstem.pipelines.format.batch_reader import BatchReader
from mainstem.pipelines.format.data_loss import DataLoss
from mainstem.pipelines.format.offsets import Json
from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.stream_reader import StreamReader
from mainstem.remote.arrow.librdkafka import consume
from mainstem.remote.arrow.range import Range
from mainstem.remote.arrow.ranges import fetch_range
from mainstem.remote.cluster import Cluster

Make = Callable[..., Topic]
ALL = ReadAllAvailable()


@pytest.fixture
def make(kafka: str, request: pytest.FixtureRequest) -> Make:
    """Makes a topic named after the test."""
    name = request.node.name.replace("[", ".").replace("]", "")[:200]
    return lambda partitions=1, **config: Topic(kafka, name, partitions, **config)


def numbers(count: int, first: int = 0) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def drain(reader: StreamReader, start: Json, limit: int = 10**9) -> tuple[list[list[str]], Json]:
    """Read batch after batch, as AvailableNow does; returns their values and the end."""
    reader.prepareForTriggerAvailableNow()
    batches: list[list[str]] = []
    while True:
        end = reader.latestOffset(start, ReadMaxRows(limit))
        if end == start:
            reader.stop()
            return batches, end
        batches.append(values(reader, reader.partitions(start, end)))
        reader.commit(end)
        start = end


def joined(batches: list[list[str]]) -> list[str]:
    return [value for each in batches for value in each]


# Bounded reads


def test_a_batch_reads_everything_there_is(make: Make) -> None:
    topic = make(2)
    topic.fill(numbers(500), partition=0)
    topic.fill(numbers(300, 500), partition=1)

    reader = batch(topic)

    found = rows(reader, reader.partitions())
    assert [(partition, offset) for partition, offset, _ in found] == [
        *((0, n) for n in range(500)),
        *((1, n) for n in range(300)),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, range(0)),
        ({"startingOffsets": '{"TOPIC": {"0": 90}}'}, range(90, 100)),
        ({"startingOffsets": '{"TOPIC": {"0": -2}}'}, range(100)),
        ({"endingOffsets": '{"TOPIC": {"0": 10}}'}, range(10)),
        ({"startingOffsets": '{"TOPIC": {"0": 7}}', "endingOffsets": "latest"}, range(7, 100)),
        ({"startingTimestamp": str(FIRST_MS + 95)}, range(95, 100)),
        ({"endingTimestamp": str(FIRST_MS + 3)}, range(3)),
        ({"startingTimestamp": str(FIRST_MS + 5000)}, range(0)),
        ({"endingTimestamp": "2030-01-01"}, range(100)),
    ],
)
def test_a_batch_begins_and_ends_where_it_is_told(
    make: Make, options: dict[str, str], expected: range
) -> None:
    topic = make()
    topic.fill(numbers(100), at_ms=FIRST_MS)
    said = {name: text.replace("TOPIC", topic.name) for name, text in options.items()}

    reader = batch(topic, **said)

    assert values(reader, reader.partitions()) == [str(number) for number in expected]


def reading(kafka: str, **options: str) -> BatchReader:
    return BatchReader(source_options({"address": kafka, **options}))


def test_topics_are_named_listed_or_fit_a_pattern(kafka: str) -> None:
    for name in ("pattern-a", "pattern-b", "other"):
        Topic(kafka, name).fill([name])

    one = reading(kafka, path="other")
    listed = reading(kafka, subscribe="pattern-a,other")
    fitting = reading(kafka, subscribePattern="pattern-.*")

    assert values(one, one.partitions()) == ["other"]
    assert sorted(values(listed, listed.partitions())) == ["other", "pattern-a"]
    assert sorted(values(fitting, fitting.partitions())) == ["pattern-a", "pattern-b"]


def test_what_is_not_there_is_said(kafka: str, make: Make) -> None:
    topic = make()

    with pytest.raises(UnknownTopic, match="nowhere"):
        reading(kafka, path="nowhere").partitions()
    with pytest.raises(UnknownPartition):
        batch(topic, startingOffsets=f'{{"{topic.name}": {{"7": 0}}}}').partitions()
    with pytest.raises(OffsetOutOfRange, match="holds offsets 0 to 0"):
        batch(topic, startingOffsets=f'{{"{topic.name}": {{"0": 5}}}}').partitions()
    with pytest.raises(Unreachable, match="mainstem serve"):
        reading("127.0.0.1:1", path="orders").partitions()


def test_filters_narrow_what_is_read(make: Make) -> None:
    topic = make(3)
    for partition in range(3):
        topic.fill(numbers(100), partition, at_ms=FIRST_MS)
    since = datetime.fromtimestamp((FIRST_MS + 90) / 1000, UTC)
    reader = batch(topic)
    filters = [
        In(("partition",), (0, 2)),
        GreaterThan(("partition",), 0),
        LessThan(("offset",), 95),
        GreaterThanOrEqual(("timestamp",), since),
        EqualTo(("key",), b"1"),
    ]

    left = list(reader.pushFilters(filters))

    # Spark applies those that are not about whole offsets once more.
    assert left == filters[3:]
    assert [each[:2] for each in rows(reader, reader.partitions())] == [
        (2, offset) for offset in range(90, 95)
    ]


def test_a_partition_is_read_by_as_many_tasks_as_asked_for(make: Make) -> None:
    topic = make()
    topic.fill(numbers(1000))

    few, many = batch(topic, minPartitions="4"), batch(topic, maxRowsPerPartition="100")

    assert len(few.partitions()) == 4
    assert len(many.partitions()) == 10
    # Every task but the first begins inside of a record batch.
    assert values(many, many.partitions()) == numbers(1000)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(make: Make, codec: str) -> None:
    topic = make()
    topic.fill(numbers(200), compression_type=codec)

    reader = batch(topic)

    assert values(reader, reader.partitions()) == numbers(200)


def test_arrow_batches_have_about_as_many_rows_as_asked_for(make: Make) -> None:
    topic = make()
    topic.fill(numbers(2500))
    reader = batch(topic, batchRows="1000")

    sizes = [found.num_rows for task in reader.partitions() for found in reader.read(task)]

    assert sum(sizes) == 2500
    assert max(sizes) == 1000


# Transactions and compaction, both ways of reading

both_ways = pytest.mark.parametrize("read", [fetch_range, consume])


def read_by(read: object, topic: Topic, start: int, end: int) -> list[str]:
    cluster = Cluster(topic.address, timeout_s=PATIENCE_S, settings={})
    return [
        (value or b"").decode()
        for found in read(cluster, Range(topic.name, 0, start, end), 10_000)  # type: ignore[operator]
        for value in found.column("value").to_pylist()
    ]


@both_ways
def test_aborted_events_and_markers_are_passed_over(make: Make, read: object) -> None:
    topic = make()
    topic.fill(["a", "b"])
    topic.transaction(["never", "never"], commit=False)
    topic.transaction(["c"], commit=True)
    topic.transaction(["never"], commit=False)

    # a b never never ABORT c COMMIT never ABORT
    assert read_by(read, topic, 0, 9) == ["a", "b", "c"]
    assert read_by(read, topic, 5, 6) == ["c"]
    assert read_by(read, topic, 6, 9) == []
    assert read_by(read, topic, 3, 5) == []


def test_a_stream_ends_behind_the_markers_and_before_what_is_open(make: Make) -> None:
    topic = make()
    topic.transaction(["a"], commit=True)
    topic.transaction(["never"], commit=False)
    reader = stream(topic)
    start = reader.initialOffset()

    batches, end = drain(reader, start)
    open_one = topic.begin(["later"])
    again, same = drain(stream(topic), end)
    open_one.commit_transaction(PATIENCE_S)
    last, _ = drain(stream(topic), same)

    assert batches == [["a"]]
    assert end["offsets"][topic.name] == {"0": 4}
    assert again == []
    assert last == [["later"]]


def test_a_topic_with_compaction_and_transactions_neither_hangs_nor_skips(
    make: Make, request: pytest.FixtureRequest
) -> None:
    if "apache" in request.node.name:
        pytest.skip("Apache Kafka has no segments this small, and compacts now and then")
    topic = make(1, cleanup_policy="compact", segment_bytes="14000")
    for turn in range(5):
        topic.fill([f"{turn}-{'x' * 3000}", *("same" for _ in range(200))])
        topic.transaction([f"{turn} kept"], commit=True)
        topic.transaction(["same", "never"], commit=False)
    whole = 5 * (201 + 2 + 3)
    until = time.monotonic() + PATIENCE_S
    while len(kept := topic.events()) > 500:
        assert time.monotonic() < until, "nothing was compacted"

    assert len(kept) < 500
    for start, end in [(0, whole), (100, 203), (150, 160), (202, 206), (350, 1000), (1029, whole)]:
        expected = [value for offset, value in kept if start <= offset < end]
        assert read_by(fetch_range, topic, start, end) == expected
        assert read_by(consume, topic, start, end) == expected


def test_reading_goes_on_when_the_server_is_restarted(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        topic = Topic(address, "orders")
        topic.fill([f"{number:0100000}" for number in range(150)])
        cluster = Cluster(address, timeout_s=PATIENCE_S, settings={})
        reading = fetch_range(cluster, Range("orders", 0, 0, 150), 10_000)
        first = next(reading)
    with serving(tmp_path, int(address.rpartition(":")[2])):
        rest = list(reading)

    offsets = [n for found in (first, *rest) for n in found.column("offset").to_pylist()]
    assert first.num_rows < 150
    assert offsets == list(range(150))


def test_planning_waits_for_a_server_that_restarts(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        topic = Topic(address, "orders")
        topic.fill(numbers(5))
        reader = stream(topic)
        start = reader.initialOffset()

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(reader.latestOffset, start, ALL)
        with serving(tmp_path, int(address.rpartition(":")[2])):
            end = asked.result(2 * PATIENCE_S)

    assert end["offsets"]["orders"] == {"0": 5}


# Streams


def test_a_stream_reads_in_batches_as_large_as_allowed(make: Make) -> None:
    topic = make()
    topic.fill(numbers(100))
    reader = stream(topic)

    batches, _ = drain(reader, reader.initialOffset(), limit=30)

    assert [len(each) for each in batches] == [30, 30, 30, 10]
    assert joined(batches) == numbers(100)


def test_a_stream_reads_about_as_many_bytes_as_allowed(make: Make) -> None:
    topic = make()
    topic.fill([f"{number:0100000}" for number in range(100)])
    reader = stream(topic, maxBytesPerTrigger="1m")

    batches, _ = drain(reader, reader.initialOffset())

    assert len(joined(batches)) == 100
    assert 5 <= len(batches[0]) <= 12


def test_available_now_ends_where_the_topic_ended_when_it_began(make: Make) -> None:
    topic = make()
    topic.fill(numbers(10))
    reader = stream(topic)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()

    topic.fill(numbers(10, 10))
    end = reader.latestOffset(start, ALL)

    assert values(reader, reader.partitions(start, end)) == numbers(10)
    assert reader.latestOffset(end, ALL) == end


def test_the_end_of_the_input_comes_once_with_the_last_events_and_nothing_after_it(
    make: Make,
) -> None:
    topic = make(2)
    topic.fill(numbers(10), at_ms=FIRST_MS)
    first = stream(topic, markEnd="true")

    batches, end = drain(first, first.initialOffset(), 6)
    topic.fill(numbers(10, 10))
    after, _ = drain(stream(topic), end)
    (again, *_), _ = drain(stream(topic, markEnd="true"), stream(topic).initialOffset(), 99)

    # The row that stands for the end has no value.
    assert len(batches) == 2
    assert joined(batches) == [*numbers(10), ""]
    assert after == []
    assert again == [*numbers(20), ""]


def test_a_stream_ends_where_it_is_told_and_goes_on_from_there(make: Make) -> None:
    topic = make()
    topic.fill(numbers(100), at_ms=FIRST_MS)
    first = stream(topic, endingTimestamp=str(FIRST_MS + 40))
    second = stream(topic, endingOffsets=f'{{"{topic.name}": {{"0": 70}}}}')

    one, there = drain(first, first.initialOffset())
    two, _ = drain(second, there)

    assert joined(one) == numbers(40)
    assert joined(two) == numbers(30, 40)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(10)),
        ({"startingOffsets": "latest"}, range(0)),
        ({"startingTimestamp": str(FIRST_MS + 8)}, range(8, 10)),
        ({"startingOffsets": '{"TOPIC": {"0": 6}}'}, range(6, 10)),
    ],
)
def test_a_stream_begins_where_it_is_told(
    make: Make, options: dict[str, str], expected: range
) -> None:
    topic = make()
    topic.fill(numbers(10), at_ms=FIRST_MS)
    reader = stream(topic, **{k: v.replace("TOPIC", topic.name) for k, v in options.items()})

    batches, _ = drain(reader, reader.initialOffset())

    assert joined(batches) == [str(number) for number in expected]


def test_a_skewed_backlog_is_admitted_by_time(make: Make) -> None:
    topic = make(2)
    topic.fill(numbers(100), 0, at_ms=FIRST_MS)
    topic.fill(numbers(1000, 100), 1, at_ms=FIRST_MS)
    by_time, evenly = stream(topic), stream(topic, admit="evenly")
    start = by_time.initialOffset()

    first = by_time.latestOffset(start, ReadMaxRows(100))["offsets"][topic.name]
    other = evenly.latestOffset(start, ReadMaxRows(100))["offsets"][topic.name]
    by_time.stop()
    evenly.stop()

    assert isinstance(first, dict)
    assert first["0"] == first["1"] >= 25
    assert isinstance(other, dict)
    assert other["0"] < 15


def test_a_new_partition_is_read_from_its_first_event(make: Make) -> None:
    topic = make()
    topic.fill(numbers(10))
    _, end = drain(stream(topic), stream(topic).initialOffset())
    topic.grow(3)
    topic.fill(["new"], partition=2)

    batches, end = drain(stream(topic), end)

    assert batches == [["new"]]
    assert end["offsets"][topic.name] == {"0": 10, "1": 0, "2": 1}


def test_a_stream_sees_a_new_partition_while_it_runs(make: Make) -> None:
    topic = make()
    clock = [0.0]
    reader = stream(topic)
    reader._metadata._now = lambda: clock[0]
    start = reader.initialOffset()
    topic.grow(2)
    topic.fill(["new"], partition=1)

    clock[0] += 5
    end = reader.latestOffset(start, ALL)

    assert values(reader, reader.partitions(start, end)) == ["new"]


def test_a_batch_that_was_planned_is_read_the_same_again(make: Make) -> None:
    topic = make(2)
    topic.fill(numbers(50), 0)
    topic.fill(numbers(50, 50), 1)
    planner = stream(topic)
    start = planner.initialOffset()
    end = planner.latestOffset(start, ReadMaxRows(60))
    topic.fill(numbers(50, 100), 0)

    # After a crash there is a new process, and it is asked for the tasks first.
    again = stream(topic)

    once = rows(planner, planner.partitions(start, end))
    planner.stop()
    assert rows(again, again.partitions(start, end)) == once
    assert len(once) <= 60


def test_how_far_a_query_is_can_be_seen_as_a_groups_cursor(make: Make) -> None:
    topic = make()
    topic.fill(numbers(42))
    reader = stream(topic, group="dashboard")

    drain(reader, reader.initialOffset())

    consumer = Consumer({"bootstrap.servers": topic.address, "group.id": "dashboard"})
    (cursor,) = consumer.committed([TopicPartition(topic.name, 0)], timeout=PATIENCE_S)
    consumer.close()
    assert cursor.offset == 42
    assert reader.reportLatestOffset()["offsets"][topic.name] == {"0": 42}


# Loss


def test_what_retention_took_is_an_error_or_skipped(make: Make) -> None:
    topic = make()
    topic.fill(numbers(10))
    start = stream(topic, startingOffsets="earliest").initialOffset()
    planned = stream(topic).latestOffset(start, ALL)
    tasks = stream(topic).partitions(start, planned)
    topic.trim(5)

    strict, lenient = stream(topic), stream(topic, failOnDataLoss="false")

    with pytest.raises(DataLoss, match=r"5 offsets of partition 0.*failOnDataLoss"):
        strict.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match="first one kept is 5"):
        values(strict, tasks)
    assert values(lenient, tasks) == numbers(5, 5)
    end = lenient.latestOffset(start, ALL)
    assert values(lenient, lenient.partitions(start, end)) == numbers(5, 5)


def test_a_topic_that_was_made_again_is_an_error_or_read_anew(make: Make) -> None:
    topic = make()
    topic.fill(numbers(10))
    _, end = drain(stream(topic), stream(topic).initialOffset())
    topic.delete()
    topic.make()
    topic.fill(["new"] * 20)

    strict, lenient = stream(topic), stream(topic, failOnDataLoss="false")

    with pytest.raises(DataLoss, match="deleted and made again"):
        strict.latestOffset(end, ALL)
    batches, after = drain(lenient, end)
    assert batches == [["new"] * 20]
    # Once it has gone on, all is well again.
    assert drain(stream(topic), after) == ([], after)


def test_a_topic_made_again_after_a_batch_was_planned_does_not_stop_it(make: Make) -> None:
    topic = make()
    topic.fill(numbers(10))
    start = stream(topic).initialOffset()
    planned = stream(topic).latestOffset(start, ALL)
    topic.delete()
    topic.make()

    strict, lenient = stream(topic), stream(topic, failOnDataLoss="false")

    with pytest.raises(DataLoss, match="made again"):
        strict.partitions(start, planned)
    assert list(lenient.partitions(start, planned)) == []


def test_a_partition_that_nobody_tells_of_keeps_its_offset(make: Make) -> None:
    topic = make(2)
    topic.fill(numbers(10), 1)
    reader = stream(topic)
    _, end = drain(reader, reader.initialOffset())
    topic.fill(numbers(10, 10), 0)
    # As when what was there at the beginning was fixed without it.
    reader._target = {(topic.name, 0): 10}

    after = reader.latestOffset(end, ALL)

    assert after["offsets"][topic.name] == {"0": 10, "1": 10}


def test_a_topic_that_is_gone_is_an_error_or_left_out(make: Make, kafka: str) -> None:
    topic = make()
    topic.fill(numbers(10))
    start = stream(topic).initialOffset()
    pattern = f"{topic.name}.*"
    topic.delete()

    with pytest.raises(DataLoss, match="is gone"):
        stream(topic, subscribePattern=pattern).latestOffset(start, ALL)
    lenient = stream(topic, subscribePattern=pattern, failOnDataLoss="false")

    assert lenient.latestOffset(start, ALL) == start
    assert list(lenient.partitions(start, start)) == []


def test_a_topic_that_is_not_asked_for_any_more_is_not_missed(kafka: str) -> None:
    for name in ("dropped", "kept"):
        Topic(kafka, name).fill([name])
    both = StreamReader(source_options({"address": kafka, "subscribe": "dropped,kept"}))
    one = StreamReader(source_options({"address": kafka, "subscribe": "kept"}))
    start = both.initialOffset()

    end = one.latestOffset(start, ALL)

    assert values(one, one.partitions(start, end)) == ["kept"]
    assert end["offsets"]["dropped"] == {"0": 0}


def test_a_checkpoint_of_another_source_is_refused(make: Make) -> None:
    with pytest.raises(InvalidSetting, match="checkpoint of its own"):
        stream(make()).latestOffset({"logOffset": 5}, ALL)  # type: ignore[dict-item]
