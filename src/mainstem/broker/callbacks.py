"""Callbacks: collected under the broker's lock, called without it, as they may call the broker."""

from collections.abc import Callable, Iterable

Callback = Callable[[], None]


def make(calls: Iterable[Callback]) -> None:
    """Call all callbacks; must not be called under the lock."""
    for call in calls:
        call()
