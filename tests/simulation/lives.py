"""Many simulated lives: nothing goes wrong in any, or a fault is noticed in one."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from tests.simulation.simulation import Simulated

Live = Callable[[int], Simulated]
"""Simulates the life of a seed."""
Fault = tuple[object, str, Callable[..., object], str]
"""What is replaced, by what, and a pattern of what is then wrong."""


def happened(seeds: Iterable[int], live: Live) -> Counter[str]:
    """Simulate lives in which nothing may go wrong; return what happened in them."""
    deeds: Counter[str] = Counter()
    for seed in seeds:
        life = live(seed)
        assert not life.wrong, str(life)
        deeds += life.deeds
    return deeds


def first_wrong(live: Live) -> Simulated:
    """Return the first life in which something is wrong."""
    for seed in range(300):
        life = live(seed)
        if life.wrong:
            return life
    raise AssertionError("it was not noticed")


def check_it_is_noticed(monkeypatch: pytest.MonkeyPatch, fault: Fault, live: Live) -> None:
    """Fail unless something goes wrong with the fault, which is told by what it breaks."""
    owner, name, faulty, said = fault
    monkeypatch.setattr(owner, name, faulty)

    assert re.search(said, first_wrong(live).wrong[0])
