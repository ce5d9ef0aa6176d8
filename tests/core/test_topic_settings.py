"""Topic settings and their valid combinations."""

import pytest

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import Durability, Overload, TopicSettings


def test_the_defaults_mean_something_and_are_the_safe_ones() -> None:
    TopicSettings().check()

    assert TopicSettings().durability is Durability.FSYNC
    assert TopicSettings().overload is Overload.BUFFER


def test_settings_are_altered_one_by_one_and_read_from_text() -> None:
    settings = TopicSettings(partitions=3).altered(
        durability="disk", retention_ms="1000", compact="true"
    )

    assert settings == TopicSettings(
        partitions=3, durability=Durability.DISK, retention_ms=1000, compact=True
    )


def test_a_compacted_topic_is_checked_deeply_unless_it_says_otherwise() -> None:
    assert not TopicSettings().deep
    assert TopicSettings(compact=True).deep
    assert TopicSettings().altered(validate="deep").deep
    assert not TopicSettings(compact=True).altered(validate="header").deep
    # Times are in the records, whatever else is looked at.
    assert TopicSettings().altered(validate="header", max_ahead_ms=0).deep
    assert not TopicSettings().altered(max_ahead_ms=0, timestamps="appended").deep


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"partition": 2}, "no setting partition; there are partitions"),
        ({"partitions": 0}, "partitions must be at least 1, not 0"),
        ({"partitions": 1_000_001}, "at most 1000000"),
        ({"partitions": "many"}, "partitions"),
        ({"durability": "paper"}, "paper"),
        ({"overload": "drop=oldest"}, "give both or neither"),
        ({"max_backlog": 5}, "give both or neither"),
        ({"max_backlog": 0, "overload": "backpressure"}, "max_backlog must be at least 1"),
        ({"retention_ms": 0}, "retention_ms must be at least 1"),
        ({"max_batch_bytes": 10}, "max_batch_bytes must be at least 1024"),
        ({"compact_share": 1.5}, "compact_share must be from 0 to 1, not 1.5"),
        ({"compact_share": "nan"}, "compact_share must be from 0 to 1, not nan"),
        ({"compact_within_ms": 0}, "compact_within_ms must be at least 1"),
        ({"compact_within_ms": 5, "compact_after_ms": 6}, "must not be below compact_after_ms"),
        ({"compact_within_ms": 5, "durability": "memory"}, "a topic in memory has none"),
        ({"kept": {"unclean": "1"}}, "kept has 'unclean', not file.delete.delay.ms"),
        ({"kept": {"flush.ms": "1"}, "durability": "disk"}, "flush.ms is for topics of durability"),
        (
            {"compact": True, "overload": "drop=oldest", "max_backlog": 5},
            "a compacted topic cannot drop=oldest",
        ),
    ],
)
def test_what_means_nothing_is_refused_by_name(changes: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidSetting, match=text):
        TopicSettings().altered(**changes)
