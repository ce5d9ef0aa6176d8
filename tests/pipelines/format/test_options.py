"""Every option has an effect, or is refused with advice."""

import pytest

from mainstem.core.errors import InvalidSetting
from mainstem.pipelines.format.options import (
    DEFAULT_MAX_ROWS,
    Edge,
    sink_options,
    source_options,
    timestamp_of,
)


def test_a_topic_is_all_that_a_source_needs() -> None:
    found = source_options({"path": "orders"})

    assert found.topics == ("orders",)
    assert found.server.address == "127.0.0.1:9092"
    assert found.starting == Edge("earliest")
    assert found.ending == Edge("latest")
    assert found.max_rows == DEFAULT_MAX_ROWS
    assert found.fail_on_data_loss
    assert found.by_timestamp


def test_options_are_known_under_the_names_of_sparks_kafka_source() -> None:
    found = source_options(
        {
            "kafka.bootstrap.servers": "broker:9093",
            "kafka.sasl.username": "me",
            "subscribe": "orders, refunds,orders",
            "startingOffsets": '{"orders": {"0": 23, "1": -2}}',
            "endingOffsets": "latest",
            "maxOffsetsPerTrigger": "5k",
            "minPartitions": "4",
            "maxRecordsPerPartition": "100",
            "FAILONDATALOSS": "False",
            "includeHeaders": "true",
        }
    )

    assert found.server.address == "broker:9093"
    assert found.server.settings == {"sasl.username": "me"}
    assert found.topics == ("orders", "refunds")
    assert found.starting == Edge({"orders": {0: 23, 1: -2}})
    assert found.max_rows == 5120
    assert found.min_partitions == 4
    assert found.max_rows_per_partition == 100
    assert not found.fail_on_data_loss


def test_what_a_progress_report_shows_can_be_a_start() -> None:
    shown = '{"offsets": {"orders": {"0": 7}}, "ids": {"orders": "ab"}}'

    found = source_options({"path": "orders", "startingOffsets": shown})

    assert found.starting == Edge({"orders": {0: 7}})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no topic to read"),
        ({"path": "a", "subscribePattern": "b.*"}, "exclude each other"),
        ({"path": "a", "subscribe": "b"}, "say the same"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"path": "a", "startingOffsets": "soon"}, "earliest, latest, or JSON"),
        ({"path": "a", "endingOffsets": "earliest"}, "nothing to read"),
        ({"path": "a", "startingOffsets": "latest", "startingTimestamp": "5"}, "give one"),
        ({"path": "a", "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"path": "a", "maxRowsPerTrigger": "0"}, "1 or more"),
        ({"path": "a", "maxRowsPerTrigger": "many"}, "must be a number"),
        ({"path": "a", "failOnDataLoss": "perhaps"}, "true or false"),
        ({"path": "a", "admit": "randomly"}, "timestamp or evenly"),
        ({"path": "a", "startingOfsets": "latest"}, "has no option 'startingofsets'"),
        ({"path": "a", "kafka.group.id": "g"}, "group.id"),
    ],
)
def test_what_a_source_cannot_be_told_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        source_options(options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
    ],
)
def test_times_are_milliseconds_or_iso(text: str, expected: int) -> None:
    assert timestamp_of(text, "startingTimestamp") == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topic": "a b"}, "cannot name a topic"),
        ({"batch": "1"}, "option pipeline"),
        ({"compression": "rar"}, "compression must be"),
        ({"subscribe": "b"}, "has no option 'subscribe'"),
        ({"parallel": "2"}, "true or false"),
    ],
)
def test_what_a_sink_cannot_be_told_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match=says):
        sink_options({"topic": "a"} | options)
