"""Messages that are not whole yet: what connections keep of them is limited together.

How this works: as with incomplete frames (``transport/receive_budget.py``), the connection that has
held something for longest may always keep more, so that its message becomes whole; the others wait
while the budget is used up. Who is waited for, and sends nothing, is disconnected.
"""

from mainstem.heads.conversation import Later, Outbox
from mainstem.heads.transport.receive_budget import ReceiveBudget

MAX_BYTES = 16 * 1024 * 1024
"""Of all connections; a single one may have more (``amqp.max_unfinished_bytes``)."""


class Unfinished:
    """What one connection keeps of messages that are coming."""

    def __init__(self, budget: ReceiveBudget, outbox: Outbox) -> None:
        self._budget = budget
        self._outbox = outbox
        self._size = 0
        self._wait: Later | None = None

    def keep(self, size: int) -> Later | None:
        """Keep so many bytes in total; take no more before a Later that is returned is settled."""
        before, self._size = self._size, size
        if not size:
            if before:
                self._budget.release(self)
        elif size != before and not self._budget.hold(self, size, must=size < before):
            self._wait = Later()
            self._wait.hold()
            return self._wait
        return None

    @property
    def waits(self) -> bool:
        """Whether nothing is taken from the client at the moment."""
        return self._wait is not None

    def release(self) -> None:
        """Keep nothing: the connection ends."""
        self._size, self._wait = 0, None
        self._budget.release(self)

    # Called by the budget.

    def room_again(self) -> None:
        """Take more, if there is room for it now."""
        if self._wait is not None and self._budget.hold(self, self._size):
            wait, self._wait = self._wait, None
            wait.settle(())

    def close(self, reason: str) -> None:
        """Disconnect, as others wait."""
        self._outbox.close(reason)
