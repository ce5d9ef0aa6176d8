"""Duties: work that is done by one node at a time, such as a connector."""

from collections.abc import Callable
from typing import Protocol

__all__ = ["Duties", "Duty"]


class Duty(Protocol):
    """A duty that is held, or waited for."""

    @property
    def is_held(self) -> bool:
        """Whether the work is to be done here now."""

    def release(self) -> None:
        """Stop holding it, or waiting for it; whoever waits longest has it next."""


class Duties(Protocol):
    """Hands out duties, each to one holder at a time; on a single node at once."""

    def hold(self, name: str, changed: Callable[[], None]) -> Duty:
        """Ask for a duty; ``changed`` is called whenever ``is_held`` is different later.

        Calls come from any thread, without a lock, and must not block.
        """
