"""Callbacks: collected under the broker's lock, called after its release, as they may take it."""

from collections.abc import Callable, Iterable

Callback = Callable[[], None]


def make(calls: Iterable[Callback]) -> None:
    """Call all callbacks; the broker's lock must not be held."""
    for call in calls:
        call()
