"""The benchmark of the HTTP head: its page, and a small run of it."""

import pytest
from bench.http_head.__main__ import BARE, MEMORY, OURS, Load, Turn, page, turn

PUBLISH = Load("Publish", ("publish", 2, 10, 100))
FOLLOW = Load("Follow", ("fan_out", 3, 10, 20))


def test_events_that_are_followed_are_counted_for_each_client() -> None:
    assert (PUBLISH.events, PUBLISH.requests) == (1_000, 100)
    assert (FOLLOW.events, FOLLOW.requests) == (600, 20)


def test_the_page_compares_each_round_with_the_bare_app_in_it() -> None:
    ours = [Turn(4.0, 1.0), Turn(2.0, 1.0), Turn(1.0, 1.0)]
    bare = [Turn(1.0, 0.5), Turn(1.0, 0.5), Turn(1.0, 0.5)]

    shown = page({PUBLISH: {OURS: ours, BARE: bare}})

    rows = [line for line in shown.splitlines() if line.startswith("| mainstem")]
    assert rows == ["| mainstem, fsync | 50 | 500 | 1000.0 | 0.50 | 0.50 |"]
    assert "--rounds 3" in shown


@pytest.mark.parametrize("system", [MEMORY, BARE])
def test_a_turn_ends_once_everything_came(system: str) -> None:
    took = turn(system, FOLLOW)

    assert took.seconds > 0
    assert took.cpu_s >= 0
