"""What all STOMP clients share."""

from collections.abc import Callable

from mainstem.heads.context import HeadContext
from mainstem.heads.stomp.metrics import Counts
from mainstem.heads.stomp.settings import StompSettings


class Service:
    """What their conversations are made of."""

    def __init__(
        self, context: HeadContext, settings: StompSettings, clock_ms: Callable[[], int]
    ) -> None:
        self.context = context
        self.settings = settings
        self.clock_ms = clock_ms
        """Monotonic."""
        self.counts = Counts()
        self._sessions = 0

    def new_session_id(self) -> str:
        """Return an id that no other session has, nor had in another run of the server."""
        self._sessions += 1
        return f"{self.context.run_id}-{self._sessions}"
