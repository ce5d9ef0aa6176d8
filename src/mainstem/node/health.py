"""Readiness of a server, for ``/readyz``."""

from collections.abc import Callable
from enum import StrEnum


class Phase(StrEnum):
    """The phase of a server; its value is the text that ``/readyz`` shows."""

    RECOVERING = "recovering: the log is being opened; ask again"
    READY = "ready"
    DRAINING = "draining: the server stops, and finishes what was begun"


class Health:
    """What readiness depends on: the server's phase, its log and its deadlines."""

    def __init__(self) -> None:
        self.phase = Phase.RECOVERING
        self.stopped: Callable[[], str | None] = lambda: None
        """Returns why the log has stopped; None while it works."""
        self.full: Callable[[], str | None] = lambda: None
        """Returns why the log is full; None while there is space."""
        self.failing: Callable[[], str | None] = lambda: None
        """Returns the broker's timers that fail, with their errors; None while all work."""

    def not_ready(self) -> str | None:
        """Return why the server is not ready; None if it is ready."""
        if self.phase is not Phase.READY:
            return self.phase
        why = self.stopped()
        if why is not None:
            return f"stopped: {why}"
        why = self.full()
        if why is not None:
            return f"full: {why}"
        why = self.failing()
        return None if why is None else f"failing: {why}"
