"""Memory limit for incomplete messages, shared by all connections.

How this works: as with incomplete frames (``transport/receive_budget.py``), the connection that has
used memory for the longest time may always use more, so that its message can be completed. While
the budget is used up, the other connections wait, and their clients are blocked. If that connection
sends nothing, it is disconnected.
"""

from collections.abc import Callable

from mainstem.heads.conversation import Later, Outbox
from mainstem.heads.transport.receive_budget import ReceiveBudget

MAX_BYTES = 16 * 1024 * 1024
"""Limit on the incomplete messages of all connections together; a single connection may use more
(up to ``amqp.max_unfinished_bytes``).
"""


REASON = "other connections use the memory for incomplete messages"


class Unfinished:
    """Memory used by the incomplete messages of one connection."""

    def __init__(
        self,
        budget: ReceiveBudget,
        outbox: Outbox,
        block: Callable[[str], None],
        unblock: Callable[[], None],
    ) -> None:
        """``block`` tells the client why it is blocked, ``unblock`` that it no longer is."""
        self._budget = budget
        self._outbox = outbox
        self._block, self._unblock = block, unblock
        self._size = 0
        self._wait: Later | None = None

    def keep(self, size: int) -> Later | None:
        """Set the number of bytes in use; return a Later if the budget does not allow that many.

        Nothing is read from the client until the Later is settled.
        """
        before, self._size = self._size, size
        if not size:
            if before:
                self._budget.release(self)
        elif size != before and not self._budget.hold(self, size, must=size < before):
            self._wait = Later()
            self._wait.hold()
            self._block(REASON)
            return self._wait
        return None

    @property
    def waits(self) -> bool:
        """Whether nothing is read from the client, because the budget is used up."""
        return self._wait is not None

    def release(self) -> None:
        """Release all memory, because the connection ends."""
        self._size, self._wait = 0, None
        self._budget.release(self)

    # Called by the receive budget.

    def room_again(self) -> None:
        """Resume reading from the client if the budget now allows the bytes of its messages."""
        if self._wait is not None and self._budget.hold(self, self._size):
            wait, self._wait = self._wait, None
            self._unblock()
            wait.settle(())

    def close(self, reason: str) -> None:
        """Disconnect the client, because other connections wait for the memory that it uses."""
        self._outbox.close(reason)
