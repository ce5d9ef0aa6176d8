"""Deadlines by key: cheap to set, move and clear; returned one by one when due.

How this works: heartbeats move deadlines all the time, and hardly any ever comes due. So moving a
deadline later only updates a dict; its heap entry is corrected when it reaches the top. Clearing
also leaves the heap entry behind. When stale entries outnumber the valid ones, the heap is rebuilt,
so the cost per operation stays constant on average.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound="tuple[Any, ...] | str | int")


SPARE_PLACES = 64
"""Stale entries that a heap may hold, however small it is, before it is rebuilt."""
MAX_AT_ONCE = 500
"""Deadlines handled per call, so that other work gets its turn; each may cost an append."""


def first_wait_ms(deadlines: Iterable[tuple[int | None, Callable[[], int]]]) -> int | None:
    """Return the ms until the first of some deadlines, None if all are None.

    ``deadlines``: times in ms, each with the clock by which it is measured.
    """
    waits = [due_ms - clock() for due_ms, clock in deadlines if due_ms is not None]
    return max(0, min(waits)) if waits else None


class Alarm:
    """Notifies a listener that the next deadline may be earlier than before.

    The listener is called from any thread, under the broker's locks, so it must only set a flag.
    """

    def __init__(self) -> None:
        self.listener: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Notify the listener."""
        if self.listener is not None:
            self.listener()


class Deadlines(Generic[Key]):
    """One deadline for each key; keys must be comparable, as they are stored in a heap."""

    def __init__(self, alarm: Alarm | None = None) -> None:
        self._alarm = alarm
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        """The due time of each key's earliest heap entry."""
        self._heap: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, due_ms: int) -> None:
        """Set or move the deadline of a key."""
        self._due[key] = due_ms
        if due_ms < self._queued.get(key, due_ms + 1):
            self._queued[key] = due_ms
            is_first = not self._heap or due_ms < self._heap[0][0]
            heapq.heappush(self._heap, (due_ms, key))
            self._clean()
            if is_first and self._alarm is not None:
                self._alarm()

    def clear(self, key: Key) -> None:
        """Remove the deadline of a key."""
        if self._due.pop(key, None) is not None:
            self._clean()

    def next(self) -> int | None:
        """Return the earliest deadline, None if there is none."""
        self._put_right()
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> Key | None:
        """Remove and return the key that has been due longest; None if no key is due."""
        self._put_right()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key], self._due[key]
        self._clean()
        return key

    def due(self, now_ms: int) -> Iterator[Key]:
        """Remove and return the keys that are due, longest overdue first, at most MAX_AT_ONCE.

        The other keys stay due: ``next`` then returns a time in the past, so the caller calls again
        soon.
        """
        for _ in range(MAX_AT_ONCE):
            key = self.take(now_ms)
            if key is None:
                return
            yield key

    def _clean(self) -> None:
        """Rebuild the heap if most of its entries are stale."""
        if len(self._heap) > 2 * len(self._due) + SPARE_PLACES:
            self._queued = dict(self._due)
            self._heap = [(due_ms, key) for key, due_ms in self._due.items()]
            heapq.heapify(self._heap)

    def _put_right(self) -> None:
        """Correct or drop stale entries until the top of the heap is valid."""
        while self._heap:
            place_ms, key = self._heap[0]
            due_ms = self._due.get(key)
            if self._queued.get(key) != place_ms:
                heapq.heappop(self._heap)
            elif due_ms is None:
                heapq.heappop(self._heap)
                del self._queued[key]
            elif due_ms != place_ms:
                heapq.heapreplace(self._heap, (due_ms, key))
                self._queued[key] = due_ms
            else:
                return
