"""Topics on every kind of stem.

Each test has topics and groups of its own, as all of them share one server.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainstem.client.stem import Stem
from mainstem.core.errors import (
    InvalidSetting,
    MainstemError,
    OffsetOutOfRange,
    TopicExists,
    UnknownTopic,
)


def test_a_topic_has_the_settings_it_was_given(stem: Stem, name: str) -> None:
    settings: dict[str, Any] = {
        "partitions": 3,
        "retention_ms": 60_000,
        "segment_ms": 5000,
        "max_batch_bytes": 5000,
    }

    made = stem.topics.create(name, **settings)
    again = stem.topics.create(name, exist_ok=True, partitions=9)

    assert {each: getattr(made.settings, each) for each in settings} == settings
    assert again == made == stem.topics.show(name)
    assert len(made.partitions) == 3
    assert len(made.id) == 32
    with pytest.raises(TopicExists):
        stem.topics.create(name)


def test_settings_of_our_own_are_kept_by_our_own_servers(
    request: pytest.FixtureRequest, stem: Stem, name: str
) -> None:
    settings: dict[str, Any] = {
        "durability": "disk",
        "overload": "drop=oldest",
        "max_backlog": 100,
    }
    if "of_kafka" in request.node.name:
        with pytest.raises(InvalidSetting, match="does not know durability"):
            stem.topics.create(name, **settings)
        return

    made = stem.topics.create(name, **settings)

    assert {each: getattr(made.settings, each) for each in settings} == settings


def test_settings_change_and_partitions_only_grow(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=2, retention_ms=1000, segment_ms=1000)

    altered = stem.topics.alter(name, partitions=3, retention_ms=None, segment_ms=None)

    assert altered.settings.partitions == len(altered.partitions) == 3
    assert altered.settings.retention_ms is altered.settings.segment_ms is None
    with pytest.raises(InvalidSetting):
        stem.topics.alter(name, partitions=1)
    with pytest.raises(InvalidSetting):
        stem.topics.alter(name, max_backlog=5)
    with pytest.raises(InvalidSetting):
        stem.topics.alter(name, colour="red")
    with pytest.raises(UnknownTopic):
        stem.topics.alter(f"{name}.nowhere", partitions=5)


def test_topics_are_listed_by_pattern(stem: Stem, name: str) -> None:
    for place in ("eu", "us"):
        stem.topics.create(f"{name}.{place}")

    listed = stem.topics.list(f"{name}.*")

    assert [each.name for each in listed] == [f"{name}.eu", f"{name}.us"]
    assert all(not each.name.startswith("__") for each in stem.topics.list())


def test_a_deleted_topic_is_gone(stem: Stem, name: str) -> None:
    stem.topics.create(name)

    stem.topics.delete(name)

    for deed in (stem.topics.show, stem.topics.delete):
        with pytest.raises(UnknownTopic):
            deed(name)


def test_a_topic_is_trimmed_by_offset_by_time_and_wholly(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    for number in range(10):
        stem.publish(name, number, timestamp_ms=1000 + number * 1000)

    by_offset = stem.topics.trim(name, 3)
    by_time = stem.topics.trim(name, datetime.fromtimestamp(7, UTC))
    with pytest.raises(OffsetOutOfRange):
        stem.topics.trim(name, 11)
    wholly = stem.topics.trim(name, "latest", partition=0)

    assert [each.partitions[0].start for each in (by_offset, by_time, wholly)] == [3, 6, 10]
    assert wholly.events == 0
    with pytest.raises(MainstemError):
        stem.topics.trim(name, 0, partition=4)
