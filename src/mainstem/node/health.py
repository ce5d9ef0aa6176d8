"""Whether a server can be used, and if not, why: what ``/readyz`` says."""

from collections.abc import Callable
from enum import StrEnum


class Phase(StrEnum):
    """What a server is doing, as ``/readyz`` says it."""

    RECOVERING = "recovering: the log is being opened; ask again"
    READY = "ready"
    DRAINING = "draining: the server stops, and finishes what was begun"


class Health:
    """The phase of a server, and whether its log still takes events."""

    def __init__(self) -> None:
        self.phase = Phase.RECOVERING
        self.stopped: Callable[[], str | None] = lambda: None
        """Tells why the log takes nothing more, None while it does."""
        self.full: Callable[[], str | None] = lambda: None
        """Tells why the log takes nothing for now, None while there is space."""

    def not_ready(self) -> str | None:
        """Return why requests should go elsewhere, None if they may come."""
        if self.phase is not Phase.READY:
            return self.phase
        why = self.stopped()
        if why is not None:
            return f"stopped: {why}"
        why = self.full()
        return None if why is None else f"full: {why}"
