"""A timer that fails is reported and tried again, and does not stop the others."""

import logging
from collections.abc import Callable

import pytest
from tests.broker.brokers import Clock, new_broker

from mainstem.broker.timers import RETRY_MS, Timer, Timers


class Part:
    """A part of the broker that is always due, and fails if ``error`` is set."""

    def __init__(self) -> None:
        self.ticks = 0
        self.error: Exception | None = None

    def tick(self) -> None:
        self.ticks += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def clock() -> Clock:
    return Clock()


def timers_of(clock: Clock, *parts: Part, wait: Callable[[], int | None] = lambda: 0) -> Timers:
    return Timers([Timer(f"part {at}", it.tick, wait) for at, it in enumerate(parts)], clock)


def test_the_other_timers_act(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = Part(), Part()
    timers = timers_of(clock, bad, good)
    bad.error = IndexError("index out of range")

    for _ in range(3):
        timers.tick()

    assert (bad.ticks, good.ticks) == (1, 3)
    assert timers.failing() == "part 0: IndexError: index out of range"
    assert timers.failures == {"part 0": 1, "part 1": 0}
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_it_is_tried_again_after_a_while_and_logged_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Part()
    timers = timers_of(clock, bad)
    bad.error = IndexError()
    timers.tick()
    assert timers.wait_ms() == RETRY_MS
    clock.now_ms += RETRY_MS
    timers.tick()
    assert bad.ticks == 2
    assert len(caplog.records) == 1

    bad.error = None
    clock.now_ms += RETRY_MS
    timers.tick()

    assert timers.failing() is None
    assert timers.wait_ms() == 0
    assert len(caplog.records) == 2
    timers.tick()
    assert bad.ticks == 4


def test_a_deadline_that_cannot_be_told_is_a_failure_too(clock: Clock) -> None:
    def fails() -> int:
        raise IndexError

    timers = timers_of(clock, Part(), wait=fails)

    assert timers.wait_ms() == RETRY_MS
    assert timers.failing() == "part 0: IndexError: "


def test_a_broker_has_a_timer_for_each_part_with_a_deadline() -> None:
    assert set(new_broker().timers.failures) == {
        "local groups",
        "consumer groups",
        "classic groups",
        "producers",
        "transactions",
        "queues",
        "share groups",
        "delayed events",
        "cursor expiry",
        "acked events",
        "topic changes",
    }
