"""Calls that are decided on under the broker's lock, and made without it: they may come back."""

from collections.abc import Callable, Iterable

Callback = Callable[[], None]


def make(calls: Iterable[Callback]) -> None:
    """Make the calls; never under the lock."""
    for call in calls:
        call()
