"""A peer's outbox without a socket: collects what a head sends."""

from collections.abc import Callable

from mainstem.heads.conversation import Answer


class Outbox:
    """Collects what a head sends to one peer."""

    def __init__(self, now_ms: int) -> None:
        self.peer = "127.0.0.1:5"
        self.heard_ms = now_ms
        self.is_tls = False
        self.is_full = False
        self.said = b""
        self.ended = False
        self.end_conversation: Callable[[], None] = lambda: None
        self._room: list[Callable[[], None]] = []

    def send(self, pieces: Answer) -> None:
        for each in pieces:
            assert isinstance(each, bytes)
            self.said += each

    def when_room(self, call: Callable[[], None]) -> None:
        self._room.append(call)

    def has_room(self) -> None:
        """Make room, as if the client had read."""
        self.is_full = False
        calls, self._room = self._room, []
        for call in calls:
            call()

    def close(self, reason: str = "") -> None:
        self.end((), reason)

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        if not self.ended:
            self.ended = True
            self.end_conversation()
            self.send(farewell)
