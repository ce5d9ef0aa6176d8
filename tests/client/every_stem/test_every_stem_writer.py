"""Fenced writers on every kind of stem: one order, and a new writer fences the previous one."""

import pytest

from mainstem.client.stem import Stem
from mainstem.core.errors import (
    Closed,
    EventTooLarge,
    Fenced,
    InvalidName,
    InvalidSetting,
    UnknownPartition,
    UnknownTopic,
    WriterFenced,
)
from mainstem.core.event import Event

PATIENCE_S = 30


def texts(stem: Stem, topic: str) -> list[str]:
    """Return what a reader of the whole topic sees."""
    with stem.subscribe(topic, follow=False) as events:
        return [event.text() for event in events]


def test_events_stand_where_the_writer_says(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)

    with stem.writer(name, name="ledger") as writer:
        first = writer.append("1", key="k", headers={"h": "x"}, timestamp_ms=1_700_000_000_000)
        rest = writer.append_many(["2", Event(b"3"), {"four": 4}])

    with stem.subscribe(name, follow=False) as events:
        read = list(events)
    assert [event.text() for event in read] == ["1", "2", "3", '{"four":4}']
    assert [event.position for event in read] == [first, *rest]
    assert sorted({first, *rest}) == [first, *rest]
    assert (read[0].key, read[0].headers) == (b"k", (("h", b"x"),))
    assert read[0].timestamp_ms == 1_700_000_000_000


def test_reading_goes_on_from_a_position_of_the_writer(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    with stem.writer(name, name="ledger") as writer:
        _, second, _ = writer.append_many(["1", "2", "3"])

    with stem.subscribe(name, start=second.offset, follow=False) as events:
        assert [event.text() for event in events] == ["2", "3"]


def test_a_second_writer_of_the_name_fences_the_first(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    first = stem.writer(name, name="ledger")
    first.append("1")

    second = stem.writer(name, name="ledger")
    for _ in range(2):
        with pytest.raises(WriterFenced, match=r"'ledger'.*has taken over") as refused:
            first.append("never")
    with pytest.raises(Fenced):
        first.append_many(["never", "never"])
    with pytest.raises(Fenced):
        first.truncate(before=1)
    second.append("2")
    third = stem.writer(name, name="ledger")
    third.append("3")
    with pytest.raises(Fenced):
        second.append("never")

    assert (refused.value.topic, refused.value.partition) == (name, 0)
    assert texts(stem, name) == ["1", "2", "3"]
    for each in (first, second, third):
        each.close()


def test_writers_of_other_names_topics_and_partitions_are_left_alone(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=2)
    stem.topics.create(f"{name}.other", partitions=1)
    with (
        stem.writer(name, name="a", partition=0) as first,
        stem.writer(name, name="b", partition=0) as second,
        stem.writer(name, name="a", partition=1) as third,
        stem.writer(f"{name}.other", name="a") as fourth,
    ):
        written = [each.append("x").partition for each in (first, second, third, fourth, first)]

    assert written == [0, 0, 1, 0, 0]


def test_a_writer_creates_no_topic(stem: Stem, name: str) -> None:
    with pytest.raises(UnknownTopic):
        stem.writer(name, name="ledger")
    assert not stem.topics.list(name)


def test_several_partitions_have_no_order_so_one_is_to_be_chosen(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=3)

    with pytest.raises(InvalidSetting, match="has 3 partitions"):
        stem.writer(name, name="ledger")
    with pytest.raises(UnknownPartition):
        stem.writer(name, name="ledger", partition=3)
    with stem.writer(name, name="ledger", partition=2) as writer:
        assert writer.append("x").partition == 2


@pytest.mark.parametrize("wrong", ["", "a\nb", "n" * 256])
def test_a_writer_has_a_name_that_can_be_printed(stem: Stem, name: str, wrong: str) -> None:
    stem.topics.create(name, partitions=1)

    with pytest.raises(InvalidName, match="writer"):
        stem.writer(name, name=wrong)


def test_what_is_before_an_offset_is_truncated(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)

    with stem.writer(name, name="ledger") as writer:
        _, second = writer.append_many(["1", "2"])
        writer.truncate(before=second.offset)
        writer.append("3")

    assert texts(stem, name) == ["2", "3"]


def test_many_events_are_kept_all_or_not_at_all(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1, max_batch_bytes=20_000)
    with stem.writer(name, name="ledger") as writer:
        with pytest.raises(EventTooLarge):
            writer.append_many([*("x" * 1_000 for _ in range(50)), "x" * 30_000])
        positions = writer.append_many(["y" * 1_000] * 50)
        assert writer.append_many([]) == []

    assert len(positions) == 50
    assert texts(stem, name) == ["y" * 1_000] * 50


def test_a_closed_writer_appends_no_more_and_fences_nobody(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    with stem.writer(name, name="ledger") as first:
        first.append("1")
    first.close()

    with pytest.raises(Closed, match="writer has been closed"):
        first.append("never")
    with stem.writer(name, name="ledger") as second:
        second.append("2")
    assert texts(stem, name) == ["1", "2"]
