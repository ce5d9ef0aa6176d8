"""A cache of messages that were sent or requested lately, to answer requests without the log."""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Sequence

CACHE_BYTES = 8 * 1024 * 1024


class Recent:
    """A cache of runs of consecutive messages; the oldest run is evicted first."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._firsts: list[int] = []
        self._runs: dict[int, Sequence[bytes]] = {}
        self._order: deque[tuple[int, int]] = deque()
        """The first sequence number and the size in bytes of each run, the oldest first."""
        self._bytes = 0

    def add(self, first: int, blocks: Sequence[bytes]) -> None:
        """Add a run of messages, whose first one has the number ``first``."""
        if not blocks or first in self._runs:
            return
        size = sum(map(len, blocks))
        insort(self._firsts, first)
        self._runs[first] = blocks
        self._order.append((first, size))
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._order) > 1:
            self._forget()

    def find(self, sequence: int, count: int) -> Sequence[bytes]:
        """Return up to ``count`` messages from a sequence number on; empty if it is not cached."""
        at = bisect_right(self._firsts, sequence) - 1
        if at < 0:
            return ()
        skip = sequence - self._firsts[at]
        found = list(self._runs[self._firsts[at]][skip : skip + count])
        if found and len(found) < count and at + 1 < len(self._firsts):
            # The next run may begin where this one ends.
            following = self._firsts[at + 1]
            if following == sequence + len(found):
                found += self._runs[following][: count - len(found)]
        return found

    def _forget(self) -> None:
        first, size = self._order.popleft()
        del self._runs[first]
        del self._firsts[bisect_right(self._firsts, first) - 1]
        self._bytes -= size
