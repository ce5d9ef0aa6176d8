"""The aim of these benchmarks: at least half of the rate of a bare peer that does nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

AIM = 0.5


class Ratio(NamedTuple):
    """The rate of one system as a part of its bare peer's."""

    what: str
    value: float
    why: str
    """What the peer does not have to do; said if the aim is not met."""


def verdict(value: float) -> str:
    """Return whether a ratio meets the aim, as it is in a table."""
    return "met" if value >= AIM else f"{max(AIM - value, 0.01):.2f} short"


def summary(ratios: Sequence[Ratio]) -> str:
    """Return which ratios fall short of the aim, by how much, and why."""
    short = [each for each in ratios if each.value < AIM]
    aim = f"The aim is at least {AIM} times the rate of the system without mainstem."
    if not short:
        return f"{aim} All of {len(ratios)} figures meet it."
    lines = [f"- {each.what}: {each.value:.2f} (aim: {AIM})" for each in short]
    reasons = list(dict.fromkeys(each.why for each in short))
    count = f"{len(ratios) - len(short)} of {len(ratios)} figures meet it; these fall short:"
    return "\n".join([f"{aim} {count}", "", *lines, "", " ".join(reasons)])
