"""The receiving side of a connection: where to read into, and the frame that is not whole yet.

How this works: bytes are read into one buffer that all connections of the loop share. Of a frame
that is not whole, a small part is put before the next read, which may bring many more frames. A
large one, or one that is not whole after that read either, gets a buffer of its own, into which
the rest is read in place. Nothing that came is copied again but when that buffer grows, and it
grows by a quarter at least; so a frame that comes byte by byte costs little more than one that
comes at once.
"""

from collections.abc import Callable

from mainstem.heads.transport.receive_budget import Holder, ReceiveBudget

READ_BYTES = 256 * 1024
KEPT_BYTES = 32 * 1024
"""Of a frame up to this size what came is put before the next read."""
AHEAD_BYTES = 1280 * 1024
"""Room for a frame of which little has come: the largest batches of most clients are 1 MB."""
LEAST_READ_BYTES = 4096
"""While there is no room for frames that are not whole."""
UNFINISHED_BYTES = 32 * 1024 * 1024
"""Frames that are not whole, of all connections; one of them may be larger."""


class Receiver:
    """Keeps what came of one frame, within a budget that all connections share."""

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
        """Is told when there is room again, or that it must give way."""
        self._buffer: bytearray | None = None
        """What came, and room for more of it; full if it is put before the next read."""
        self._filled = 0
        self._wanted: int | None = None
        """The frame's size, None if that cannot be told yet."""
        self._came = 0
        """How much ``received`` returned last, if it begins with what was kept."""
        self.has_room = True
        """Whether more can be read."""

    def room(self) -> memoryview:
        """Return where to read into: the rest of a large frame, or the shared buffer."""
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
        """Return all that came from the first byte of a frame on, None if that is not whole.

        Whoever gets it takes frames, and hands back the rest by ``keep``.
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
        """Keep what came of a frame of so many bytes; None if that cannot be told yet."""
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
        """Make room for more of a frame if there is none left, or wait until there is."""
        if self._buffer is not None and self._filled == len(self._buffer):
            self._grow(memoryview(self._buffer))

    def release(self) -> None:
        """Keep nothing."""
        self._buffer = None
        self._budget.release(self._holder)

    def _grow(self, came: memoryview) -> None:
        size = _room_for(len(came), self._wanted)
        self.has_room = self._budget.hold(self._holder, size)
        self._buffer = bytearray(size if self.has_room else len(came))
        self._buffer[: len(came)] = came
        self._filled = len(came)


def _room_for(came: int, wanted: int | None) -> int:
    """Return how large a buffer a frame gets of which so much came."""
    if wanted is None:
        # Large ones grow by less: whoever never ends a frame makes this hold it twice.
        more = min(came, max(AHEAD_BYTES, came // 4))
        return came + max(more, LEAST_READ_BYTES)
    # A peer's word is not enough for more than twice what came; but a batch of the usual size
    # is given its place at once, as moving it costs more than all the rest of its way.
    ahead = AHEAD_BYTES if came >= KEPT_BYTES else READ_BYTES
    return min(max(2 * came, ahead), wanted)
