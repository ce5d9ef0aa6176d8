"""Scheduled events: published when they are due, also after the log was closed and opened."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import mainstem
from mainstem import aio
from mainstem.core.errors import (
    Closed,
    EventTooLarge,
    InvalidSetting,
    UnknownTopic,
)

PATIENCE_S = 30


def test_events_come_when_they_are_due_whatever_was_scheduled_before(
    stem: mainstem.EmbeddedStem,
) -> None:
    stem.schedule("orders", "never", delay_s=1e6)
    stem.schedule("orders", "second", delay_s=0.1, key="k", headers={"h": "1"})
    stem.schedule("orders", "first", at=datetime.now(UTC) - timedelta(days=1))

    with stem.subscribe("orders") as subscription:
        first, second = (subscription.poll(PATIENCE_S) for _ in range(2))

    assert first is not None
    assert second is not None
    assert (first.text(), second.text()) == ("first", "second")
    assert (second.key, second.headers) == (b"k", (("h", b"1"),))
    assert stem.node.broker.delays.waiting().events == 1


def test_what_was_due_while_the_log_was_closed_comes_when_it_is_opened(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("orders", partitions=2)
        stem.schedule("orders", "late", delay_s=0.05, partition=1)

    with mainstem.open(tmp_path) as stem, stem.subscribe("orders") as subscription:
        event = subscription.poll(PATIENCE_S)
        assert event is not None
        assert (event.text(), event.partition) == ("late", 1)

    with mainstem.open(tmp_path) as stem:
        assert len(list(stem.subscribe("orders", follow=False))) == 1


async def test_the_async_stem_has_it_too() -> None:
    async with aio.open(":memory:") as stem:
        await stem.schedule("orders", {"id": 1}, delay_s=0.01)

        async with stem.subscribe("orders") as subscription:
            event = await subscription.poll(PATIENCE_S)

    assert event is not None
    assert event.json() == {"id": 1}


@pytest.mark.parametrize(
    "times",
    [
        {},
        {"delay_s": 1, "at": datetime.now(UTC)},
        {"at": datetime(2030, 1, 1)},
        {"delay_s": -1},
        {"delay_s": float("nan")},
    ],
)
def test_a_time_is_said_once_and_clearly(
    stem: mainstem.EmbeddedStem, times: dict[str, float | datetime]
) -> None:
    with pytest.raises(InvalidSetting, match=r"delay_s|time zone"):
        stem.schedule("orders", "x", **times)  # type: ignore[arg-type]


def test_what_cannot_be_published_is_refused_at_once(tmp_path: Path) -> None:
    with mainstem.open(tmp_path, auto_create=False) as stem:
        with pytest.raises(UnknownTopic):
            stem.schedule("none", "x", delay_s=1)
        stem.topics.create("small", max_batch_bytes=1_024)
        with pytest.raises(EventTooLarge):
            stem.schedule("small", "x" * 2_000, delay_s=1)

    with pytest.raises(Closed):
        stem.schedule("small", "x", delay_s=1)
