"""Limits of waiting events, on every stem with a mainstem server."""

import pytest

from mainstem.client.stem import Stem
from mainstem.core.dead_letters import origin_of
from mainstem.core.errors import InvalidSetting, Unsupported

LONG_AGO_MS = 1
HOUR_S = 3600.0


@pytest.fixture(params=["opened", "connected"])
def stem(request: pytest.FixtureRequest) -> Stem:
    """A stem of each kind that can have them."""
    found: Stem = request.getfixturevalue(request.param)
    return found


def delivered(stem: Stem, name: str, **limits: float) -> list[str]:
    """Ack and return everything that can be had now."""
    found = []
    with stem.queue(name, name=name, follow=False, **limits) as queue:  # type: ignore[arg-type]
        for delivery in queue:
            found.append(delivery.event.text())
            delivery.ack()
    return found


def letters(stem: Stem, name: str) -> list[str]:
    return [each.text() for each in stem.subscribe(f"{name}.dead", follow=False)]


def test_what_is_older_than_the_time_to_live_is_a_dead_letter(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    stem.publish(name, "old", timestamp_ms=LONG_AGO_MS)
    stem.publish(name, "new")

    assert delivered(stem, name, ttl_s=HOUR_S) == ["new"]
    (letter,) = stem.subscribe(f"{name}.dead", follow=False)
    origin = origin_of(letter)
    assert origin is not None
    assert (letter.text(), origin.queue) == ("old", name)
    assert "time to live" in origin.reason


@pytest.mark.parametrize("limits", [{"max_length": 2}, {"max_bytes": 9}])
def test_the_oldest_beyond_a_length_are_dead_letters(
    stem: Stem, name: str, limits: dict[str, int]
) -> None:
    stem.topics.create(name, partitions=1)
    for number in range(5):
        stem.publish(name, f"no {number}")

    assert delivered(stem, name, **limits) == ["no 3", "no 4"]
    assert letters(stem, name) == ["no 0", "no 1", "no 2"]


def test_limits_are_kept_shown_altered_and_lifted(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    with stem.queue(name, name=name, ttl_s=1.5, max_length=7, max_bytes=1000) as queue:
        queue.poll(timeout=0)
    with stem.queue(name, name=name, max_length=8) as queue:
        queue.poll(timeout=0)
    altered = stem.queues.show(name, name)
    none = delivered(stem, name, ttl_s=0, max_length=0, max_bytes=0)
    stem.publish(name, "old", timestamp_ms=LONG_AGO_MS)

    found = none + delivered(stem, name)

    assert (altered.ttl_s, altered.max_length, altered.max_bytes) == (1.5, 8, 1000)
    assert found == ["old"]
    lifted = stem.queues.show(name, name)
    assert (lifted.ttl_s, lifted.max_length, lifted.max_bytes) == (0, 0, 0)


def test_limits_that_mean_nothing_are_refused(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    for wrong in (
        {"ttl_s": -1},
        {"ttl_s": float("inf")},
        {"max_length": -1},
        {"max_length": 1.5},
        {"max_bytes": "many"},
        {"max_bytes": 2**60},
    ):
        with pytest.raises(InvalidSetting):
            stem.queue(name, name=name, **wrong)


@pytest.mark.peers
def test_a_kafka_has_no_limits_of_queues(of_kafka: Stem, name: str) -> None:
    of_kafka.topics.create(name, partitions=1)

    for limits in ({"ttl_s": 1}, {"max_length": 1}, {"max_bytes": 1}):
        with pytest.raises(Unsupported, match="retention"):
            of_kafka.queue(name, name=name, **limits)  # type: ignore[arg-type]
