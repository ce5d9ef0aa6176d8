"""The receive buffer of a connection, and its incomplete frame.

How this works: bytes are read into one buffer that all connections of the loop share. A small
incomplete frame is copied to the front of that buffer before the next read, which may bring many
more frames. A large incomplete frame, or one that is still incomplete after that read, gets a
separate buffer, into which the rest is read directly. Data is copied again only when the separate
buffer grows, by a quarter at least; so a frame that arrives byte by byte costs little more than one
that arrives at once.
"""

from collections.abc import Callable

from mainstem.heads.transport.receive_budget import Holder, ReceiveBudget

READ_BYTES = 256 * 1024
KEPT_BYTES = 32 * 1024
"""Incomplete frames up to this size are copied to the front of the shared buffer."""
AHEAD_BYTES = 1280 * 1024
"""Size of the first buffer of a large frame; most clients send batches of up to 1 MB."""
LEAST_READ_BYTES = 4096
"""Maximum bytes in one read while the budget for incomplete frames is used up."""
UNFINISHED_BYTES = 32 * 1024 * 1024
"""The budget for incomplete frames of all connections; a single frame may be larger."""


class Receiver:
    """Keeps one incomplete frame, within a budget that all connections share."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_came",
        "_filled",
        "_holder",
        "_scratch",
        "_wanted",
        "has_room",
    )

    def __init__(self, scratch: memoryview, budget: ReceiveBudget, holder: Holder) -> None:
        self._scratch = scratch
        self._budget = budget
        self._holder = holder
        """Called when memory is free again, or to disconnect the peer."""
        self._buffer: bytearray | None = None
        """The incomplete frame, with room for more data. Without room, it is copied to the front of
        the shared buffer before the next read.
        """
        self._filled = 0
        self._wanted: int | None = None
        """Size of the incomplete frame, None if not known yet."""
        self._came = 0
        """Size of the data that ``received`` returned last; 0 if that did not begin with kept data.
        """
        self.has_room = True
        """Whether there is room for more data; if not, reading must stop until ``room_again``."""

    def room(self) -> memoryview:
        """Return the buffer for the next read: that of a large frame, or the shared one."""
        filled = 0
        if self._buffer is not None:
            filled = self._filled
            if filled < len(self._buffer):
                return memoryview(self._buffer)[filled:]
            self._scratch[:filled] = self._buffer
        if self._budget.is_tight:
            return self._scratch[filled : filled + LEAST_READ_BYTES]
        return self._scratch[filled:]

    def received(
        self, nbytes: int, frame_size: Callable[[memoryview], int | None]
    ) -> memoryview | None:
        """Add ``nbytes`` just read; return all data, or None if the first frame is incomplete.

        The caller handles the complete frames in it, and passes the rest to ``keep``.
        """
        if self._buffer is None:
            self._came = 0
            return self._scratch[:nbytes]
        if self._filled == len(self._buffer):
            came = self._scratch[: self._filled + nbytes]
            if self._wanted is not None and len(came) < self._wanted:
                self._grow(came)
                return None
        else:
            self._filled += nbytes
            came = memoryview(self._buffer)[: self._filled]
            if self._wanted is None:
                self._wanted = frame_size(came)
            if self._wanted is None or len(came) < self._wanted:
                self.grow()
                return None
        self.release()
        self._came = len(came)
        return came

    def keep(self, rest: memoryview, wanted: int | None) -> None:
        """Keep an incomplete frame; ``wanted``: its size, None if not known yet."""
        self._wanted = wanted
        self._budget.hold(self._holder, len(rest), must=True)
        size = len(rest) if wanted is None else wanted
        again = len(rest) == self._came
        if not again and size <= KEPT_BYTES and self._budget.hold(self._holder, size):
            self.has_room = True
            self._buffer = bytearray(rest)
            self._filled = len(rest)
        else:
            self._grow(rest)

    def grow(self) -> None:
        """Enlarge the buffer of the incomplete frame if it is full and the budget allows that."""
        if self._buffer is not None and self._filled == len(self._buffer):
            self._grow(memoryview(self._buffer))

    def release(self) -> None:
        """Drop the incomplete frame, and free its memory."""
        self._buffer = None
        self._budget.release(self._holder)

    def _grow(self, came: memoryview) -> None:
        size = _room_for(len(came), self._wanted)
        self.has_room = self._budget.hold(self._holder, size)
        self._buffer = bytearray(size if self.has_room else len(came))
        self._buffer[: len(came)] = came
        self._filled = len(came)


def _room_for(came: int, wanted: int | None) -> int:
    """Return the size of the buffer for a frame of which ``came`` bytes have arrived."""
    if wanted is None:
        # Large buffers grow by less, as both copies exist for a moment.
        more = min(came, max(AHEAD_BYTES, came // 4))
        return came + max(more, LEAST_READ_BYTES)
    # Do not trust the announced size for more than twice the received data; but allocate a batch
    # of usual size at once, as copying it would cost more than all other handling.
    ahead = AHEAD_BYTES if came >= KEPT_BYTES else READ_BYTES
    return min(max(2 * came, ahead), wanted)
