"""Topic settings under Kafka's names, of our server and of any other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import (
    KEPT,
    Compression,
    Durability,
    Overload,
    Timestamps,
    TopicSettings,
)
from mainstem.remote.topic_configs import explain_unknown_config, from_kafka, to_kafka

ALL = dict.fromkeys(TopicSettings.__struct_fields__)

limits = st.none() | st.integers(1, 2**40)
settings = st.builds(
    TopicSettings,
    partitions=st.integers(1, 100),
    durability=st.sampled_from(Durability),
    overload=st.sampled_from(Overload),
    max_backlog=limits,
    hold_ms=st.integers(0, 10_000),
    retention_ms=limits,
    retention_bytes=limits,
    compact=st.booleans(),
    segment_bytes=st.integers(1024, 2**30),
    segment_ms=limits,
    compact_share=st.floats(0, 1),
    compact_after_ms=st.integers(0, 2**40),
    compact_within_ms=limits,
    kept=st.dictionaries(st.sampled_from(sorted(KEPT)), st.just("12345")),
    max_batch_bytes=st.integers(1024, 2**30),
    timestamps=st.sampled_from(Timestamps),
    compression=st.sampled_from(Compression),
    max_ahead_ms=limits,
    max_behind_ms=limits,
)


@given(settings)
def test_what_is_written_in_their_names_is_read_as_it_was(given_settings: TopicSettings) -> None:
    written = to_kafka(given_settings, ALL)

    assert from_kafka(written, given_settings.partitions) == given_settings


def test_only_what_is_named_is_sent() -> None:
    written = to_kafka(TopicSettings(compact=True, retention_ms=5, hold_ms=1), {"compact": True})

    assert written == {"cleanup.policy": "delete,compact"}


def test_a_limit_given_to_a_compacted_topic_is_made_to_hold() -> None:
    written = to_kafka(TopicSettings(compact=True, retention_ms=5), {"retention_ms": 5})

    assert written == {"cleanup.policy": "delete,compact", "retention.ms": "5"}


def test_a_compacted_topic_whose_limit_does_not_hold_says_so() -> None:
    found = from_kafka({"cleanup.policy": "compact", "retention.ms": "604800000"}, 1)

    assert found.compact
    assert found.expire_ms is None


def test_a_server_that_is_not_ours_does_not_promise_to_sync() -> None:
    entries = {
        "cleanup.policy": "compact,delete",
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "segment.ms": "9223372036854775807",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "2",
    }

    found = from_kafka(entries, 6)

    assert found.durability is Durability.DISK
    assert found.compact
    assert (found.retention_ms, found.retention_bytes) == (604_800_000, None)
    assert (found.segment_ms, found.partitions) == (None, 6)


@pytest.mark.parametrize("entry", [("retention.ms", "0"), ("segment.bytes", "14")])
def test_what_we_would_not_allow_is_shown_all_the_same(entry: tuple[str, str]) -> None:
    assert from_kafka(dict([entry]), 1).partitions == 1


@pytest.mark.parametrize(
    "refusal",
    ["Unknown topic config name: mainstem.overload", "no setting 'mainstem.overload' here"],
)
def test_a_server_that_does_not_know_our_settings_is_told_as_that(refusal: str) -> None:
    config = {"mainstem.overload": "buffer", "retention.ms": "1"}

    told = explain_unknown_config(InvalidSetting(refusal), config, "host:9092")

    assert "host:9092 does not know overload, as it is not a mainstem server" in str(told)


def test_other_refusals_of_settings_stay_as_they_are() -> None:
    refusal = InvalidSetting("max_backlog must be at least 1")

    assert explain_unknown_config(refusal, {"mainstem.max_backlog": "0"}, "host:9092") is refusal
