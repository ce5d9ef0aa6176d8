"""The table of topic configs: whole, read as it is shown, and on its page."""

import re
from pathlib import Path

import msgspec
import pytest

from mainstem.core.topic_settings import KEPT, TopicSettings
from mainstem.kafka_protocol.topic_configs import FIXED, NAME_OF, NEVER, TOPIC_CONFIGS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "topics.md"
OTHER_THAN_DEFAULT = TopicSettings(
    durability="disk",  # type: ignore[arg-type]
    overload="backpressure",  # type: ignore[arg-type]
    max_backlog=7,
    hold_ms=8,
    retention_ms=9,
    retention_bytes=10,
    compact=True,
    expire=True,
    tombstone_ms=11,
    compact_share=0.25,
    compact_after_ms=12,
    compact_within_ms=13,
    segment_bytes=2048,
    segment_ms=14,
    max_batch_bytes=4096,
    validate="deep",  # type: ignore[arg-type]
    timestamps="appended",  # type: ignore[arg-type]
    max_ahead_ms=15,
    max_behind_ms=16,
    compression="none",  # type: ignore[arg-type]
)


def test_every_setting_but_the_number_of_partitions_has_one_config() -> None:
    assert NAME_OF.keys() | {"partitions", "kept"} == set(TopicSettings.__struct_fields__)
    assert TOPIC_CONFIGS.keys().isdisjoint(KEPT.keys() | FIXED.keys())


@pytest.mark.parametrize("settings", [TopicSettings(), OTHER_THAN_DEFAULT])
def test_configs_are_read_as_they_are_shown(settings: TopicSettings) -> None:
    found: dict[str, object] = {}

    for config in TOPIC_CONFIGS.values():
        found |= config.parse(config.show(settings))

    assert msgspec.convert(found, TopicSettings, strict=False) == settings


def test_no_limit_is_shown_as_kafka_would_take_it() -> None:
    shown = {name: each.show(TopicSettings()) for name, each in TOPIC_CONFIGS.items()}

    # "-1" means no limit for these two; for the others Kafka refuses it.
    assert {name for name, value in shown.items() if value == "-1"} == {
        "retention.ms",
        "retention.bytes",
    }
    assert shown["segment.ms"] == shown["max.compaction.lag.ms"] == str(NEVER)


def test_the_page_says_under_which_name_kafka_clients_find_a_setting() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line[:3] == "| `"]
    said = {row[0].strip("| `"): re.findall("`([^`]+)`", row[2]) for row in rows}

    assert {name: said[name][0] for name in NAME_OF} == NAME_OF
    assert set(said["kept"]) <= KEPT.keys()
