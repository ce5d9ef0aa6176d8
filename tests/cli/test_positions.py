"""Start positions on the command line."""

from datetime import UTC, datetime

import pytest

from mainstem.cli.arguments.positions import FromEnd, Until, Where, in_topic, parse
from mainstem.client.info import PartitionInfo, TopicInfo
from mainstem.core.topic_settings import TopicSettings


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("beginning", "earliest"),
        ("end", "latest"),
        ("stored", "stored"),
        ("0", 0),
        ("17", 17),
        ("-10", FromEnd(10)),
        ("@0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("s@2026-11-15T08:00:00Z", datetime(2026, 11, 15, 8, tzinfo=UTC)),
        ("e@1000", Until(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))),
    ],
)
def test_a_position_is_written_in_kcats_words(text: str, where: Where) -> None:
    assert parse(text) == where


@pytest.mark.parametrize("text", ["", "begin", "--1", "1.5", "@", "²", "@soon"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse(text)


def test_the_last_n_are_counted_in_each_partition_from_what_is_kept() -> None:
    partitions = tuple(
        PartitionInfo(partition=number, start=start, tail=tail, end=tail, size_bytes=0, epoch=0)
        for number, (start, tail) in enumerate([(0, 100), (95, 100), (0, 0)])
    )
    topic = TopicInfo(name="t", id="", settings=TopicSettings(), partitions=partitions)

    assert in_topic(FromEnd(10), topic) == {0: 90, 1: 95, 2: 0}
    assert in_topic(7, topic) == 7
