"""How many events a queue over the network fetches at a time."""

from collections import Counter, deque
from itertools import cycle
from random import Random

import pytest

from mainstem.client.connected.prefetch import STEPS, Prefetch

LOCK_S = 40.0


def take(prefetch: Prefetch, count: int, pause_s: float = 0.0, now: float = 0.0) -> float:
    """Take events, each so long after the last; return when the last was taken."""
    for _ in range(count):
        now += pause_s
        prefetch.handed_out(now, now)
    return now


def test_one_is_asked_for_while_the_pace_is_not_known() -> None:
    prefetch = Prefetch(LOCK_S)

    assert prefetch.most(0.0) == 1
    prefetch.handed_out(0.0, 0.0)
    assert prefetch.most(0.0) == 1


def test_as_many_are_asked_for_as_were_taken_at_this_pace() -> None:
    prefetch = Prefetch(LOCK_S)
    asked = []

    for _ in range(300):
        prefetch.handed_out(0.0, 0.0)
        asked.append(prefetch.most(0.0))

    assert [asked.index(step) + 1 for step in STEPS] == list(STEPS)
    assert asked == sorted(asked)


@pytest.mark.parametrize(("pause_s", "most"), [(0.001, 256), (0.1, 64), (1, 8), (5, 1), (100, 1)])
def test_what_is_asked_for_is_taken_in_a_quarter_of_the_lock(pause_s: float, most: int) -> None:
    prefetch = Prefetch(LOCK_S)

    now = take(prefetch, 1000, pause_s)

    assert prefetch.most(now) == most
    assert most == 1 or most * pause_s <= LOCK_S / 4


def test_one_long_pause_is_remembered_for_as_many_as_are_asked_for_at_most() -> None:
    prefetch = Prefetch(LOCK_S)
    now = take(prefetch, 1000)
    assert prefetch.most(now) == 256

    now += 10.0
    assert prefetch.most(now) == 1
    prefetch.handed_out(now, now)

    for _ in range(STEPS[-1] - 1):
        prefetch.handed_out(now, now)
        assert prefetch.most(now) == 1
    prefetch.handed_out(now, now)
    assert prefetch.most(now) == 256


def test_the_pauses_of_threads_that_work_at_the_same_time_are_seen() -> None:
    prefetch = Prefetch(LOCK_S)

    for turn in range(20):
        take(prefetch, 20, now=turn * LOCK_S / 3)

    assert prefetch.most(20 * LOCK_S / 3) == 1


def test_who_waits_for_events_makes_no_pause() -> None:
    prefetch = Prefetch(LOCK_S)
    now = take(prefetch, 1000)

    prefetch.handed_out(now, now + 1000.0)

    assert prefetch.most(now + 1000.0) == 256


def test_after_something_went_back_single_events_are_asked_for_until_it_has_come_again() -> None:
    prefetch = Prefetch(LOCK_S)
    now = take(prefetch, 1000)

    prefetch.gave_back(5)

    assert prefetch.is_careful
    for _ in range(5 * 10):
        assert prefetch.most(now) == 1
        prefetch.handed_out(now, now)
    assert not prefetch.is_careful
    assert prefetch.most(now) > 1


@pytest.mark.parametrize("seed", range(20))
def test_nothing_goes_back_unseen_twice_however_slow_its_consumer_becomes(seed: int) -> None:
    chance = Random(seed)
    prefetch, now, until = Prefetch(LOCK_S), 0.0, 0.0
    ready, waiting = deque(range(10_000)), deque[int]()
    unseen: Counter[int] = Counter()

    # Fast at first, then slower and slower, and now and then a pause that is longer than the lock.
    for pause_s in cycle(LOCK_S / 4 / 256 * 3**step for step in range(7)):
        for _ in range(chance.randint(1, 600)):
            if waiting and now > until - LOCK_S / 2:
                prefetch.gave_back(len(waiting))
                unseen.update(waiting)
                ready.extendleft(reversed(waiting))
                waiting.clear()
            if not waiting:
                waiting.extend(ready.popleft() for _ in range(min(prefetch.most(now), len(ready))))
                until = now + LOCK_S
            if waiting:
                waiting.popleft()
                prefetch.handed_out(now, now)
            now += pause_s
        now += chance.choice([0.0, 2 * LOCK_S])
        if not ready:
            break

    assert unseen
    assert max(unseen.values()) == 1
