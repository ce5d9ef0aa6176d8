"""The port for delayed events: counts them, and registers the routers of heads."""

from typing import Protocol

from mainstem.broker.delays.delays import DelayedEvent, Router, Waiting

__all__ = ["DelayedEvent", "DelayedRouter", "Delays", "Waiting"]

DelayedRouter = Router


class Delays(Protocol):
    """Reports delayed events, and registers the routers that resolve heads' routes."""

    def waiting(self) -> Waiting:
        """Return how many events are delayed, and when the next one is due."""

    def route_delayed(self, head: str, router: DelayedRouter) -> None:
        """Register the function that resolves a head's routes to topics; only heads call this.

        ``router`` is called while the lock of the delayed events is held: it must not block, nor
        call this port.
        """
