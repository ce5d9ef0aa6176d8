"""When a server is ready, and what it says when it is not."""

import pytest

from mainstem.node.health import Health, Phase


@pytest.mark.parametrize("phase", [Phase.RECOVERING, Phase.DRAINING])
def test_a_server_that_starts_or_stops_is_not_ready_and_says_which(phase: Phase) -> None:
    health = Health()

    health.phase = phase

    assert health.not_ready() == phase.value
    assert phase.name.lower() in phase.value


def test_a_server_that_is_ready_is_so_until_its_log_stops() -> None:
    health = Health()
    health.phase = Phase.READY
    assert health.not_ready() is None

    health.stopped = lambda: "the disk failed"

    assert health.not_ready() == "stopped: the disk failed"


def test_a_server_whose_timers_fail_is_not_ready_and_says_why() -> None:
    health = Health()
    health.phase = Phase.READY

    health.failing = lambda: "queues: IndexError: a bug"

    assert health.not_ready() == "failing: queues: IndexError: a bug"
