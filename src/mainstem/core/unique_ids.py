"""Unique ids that sort by time: UUIDv7 [RFC 9562, 5.7], made for many per millisecond.

How this works: an id is the time, a count of the ids in that millisecond, and 62 random bits that
are the same for all ids of a process. After 4,096 ids in a millisecond, ids use the next
millisecond.
"""

from collections.abc import Callable

RANDOM_BITS = 62
_COUNTS = 0x1000


class UniqueIds:
    """Makes ids, each greater than the one before; not thread-safe."""

    def __init__(self, now_ms: Callable[[], int], random: int) -> None:
        """``random``: a number of RANDOM_BITS random bits, different in every process."""
        self._now_ms = now_ms
        text = f"{0x2 << RANDOM_BITS | random:016x}"
        self._end = f"-{text[:4]}-{text[4:]}"
        self._begin, self._ms, self._count = "", -1, 0

    def next(self) -> str:
        """Return a new id."""
        self._count += 1
        now_ms = self._now_ms()
        if now_ms > self._ms or self._count == _COUNTS:
            self._ms, self._count = max(now_ms, self._ms + 1), 0
            text = f"{self._ms:012x}"
            self._begin = f"{text[:8]}-{text[8:]}-7"
        return f"{self._begin}{self._count:03x}{self._end}"
