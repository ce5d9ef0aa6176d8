"""Delayed events: published when they are due; ``publish_all`` takes them."""

from typing import Protocol

from mainstem.broker.delays.delays import DelayedEvent, Router, Waiting

__all__ = ["DelayedEvent", "DelayedRouter", "Delays", "Waiting"]

DelayedRouter = Router


class Delays(Protocol):
    """What is delayed, and where it goes when it is due."""

    def waiting(self) -> Waiting:
        """Return how many events are delayed, and when the next one is due."""

    def route_delayed(self, head: str, router: DelayedRouter) -> None:
        """Say who knows where a head's routes lead; for a head, not its peers.

        It is called with the delayed events locked: it must not block, nor call anything here.
        """
