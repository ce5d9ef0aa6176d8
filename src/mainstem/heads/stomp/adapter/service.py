"""What all STOMP connections share."""

from collections.abc import Callable

from mainstem.heads.context import HeadContext
from mainstem.heads.stomp.metrics import Counts
from mainstem.heads.stomp.settings import StompSettings


class Service:
    """The state that all STOMP connections share: context, settings and counters."""

    def __init__(
        self, context: HeadContext, settings: StompSettings, clock_ms: Callable[[], int]
    ) -> None:
        self.context, self.settings = context, settings
        self.clock_ms = clock_ms
        """Returns the time of the monotonic clock in ms."""
        self.counts = Counts()
        self._sessions = 0

    def new_session_id(self) -> str:
        """Return an id for a new session, unique also across restarts of the server."""
        self._sessions += 1
        return f"{self.context.run_id}-{self._sessions}"
