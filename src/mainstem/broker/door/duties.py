"""Duties: work that only one node does at a time, such as running a connector."""

from collections.abc import Callable
from typing import Protocol

__all__ = ["Duties", "Duty"]


class Duty(Protocol):
    """A duty that one caller holds or waits for."""

    @property
    def is_held(self) -> bool:
        """Whether the caller holds the duty now, and may do its work."""

    def release(self) -> None:
        """Release the duty or stop waiting for it; the longest waiter gets it next."""


class Duties(Protocol):
    """Grants duties, each to one holder at a time; a free duty is granted at once."""

    def hold(self, name: str, changed: Callable[[], None]) -> Duty:
        """Request a duty; ``changed`` is called whenever ``is_held`` changes later.

        Calls come from any thread, without a lock, and must not block.
        """
