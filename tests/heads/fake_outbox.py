"""An outbox without a connection, for tests of what heads push to their peers."""

from collections.abc import Callable

from mainstem.heads.conversation import Answer


class FakeOutbox:
    """Tells whether there is room; whoever pushes through it sends by other means."""

    peer = "a test"
    heard_ms = 0
    is_tls = False

    def __init__(self) -> None:
        self.is_full = False
        self._room: list[Callable[[], None]] = []

    def read(self) -> None:
        """Let the peer read what came, so that there is room again."""
        self.is_full = False
        calls, self._room = self._room, []
        for call in calls:
            call()

    def when_room(self, call: Callable[[], None]) -> None:
        self._room.append(call)

    def send(self, pieces: Answer) -> None:
        raise NotImplementedError

    def close(self, reason: str = "") -> None:
        raise NotImplementedError

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        raise NotImplementedError
