"""Things that are due at a time: set, moved and cleared cheaply, taken one by one when due.

A deadline that is moved later costs nothing: its old place in the heap stays, and is put right
when its turn comes. Heartbeats move deadlines all the time, and hardly any ever comes due. Places
that hold no more are left behind, too, until they are more than those that do: then the heap is
built anew, which costs no more than what made them has.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound="tuple[Any, ...] | str | int")


SPARE_PLACES = 64
"""So many may be left behind in a heap however small."""
MAX_AT_ONCE = 500
"""How many things are done before others get their turn; each may be an append."""


class Alarm:
    """Called when something may be due earlier than everything before: somebody waits for that.

    Called under the broker's locks and from any thread, so who listens only takes note of it.
    """

    def __init__(self) -> None:
        self.listener: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Tell whoever waits for the next deadline that there may be an earlier one."""
        if self.listener is not None:
            self.listener()


class Deadlines(Generic[Key]):
    """When each of many things is due; keys must be comparable with one another."""

    def __init__(self, alarm: Alarm | None = None) -> None:
        self._alarm = alarm
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        """The earliest place of each key in the heap."""
        self._heap: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, due_ms: int) -> None:
        """Let a thing be due at a time, instead of the time it had."""
        self._due[key] = due_ms
        if due_ms < self._queued.get(key, due_ms + 1):
            self._queued[key] = due_ms
            is_first = not self._heap or due_ms < self._heap[0][0]
            heapq.heappush(self._heap, (due_ms, key))
            self._clean()
            if is_first and self._alarm is not None:
                self._alarm()

    def clear(self, key: Key) -> None:
        """Let a thing never be due."""
        self._due.pop(key, None)
        self._clean()

    def next(self) -> int | None:
        """Return when something will be due first, None if nothing will."""
        self._put_right()
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> Key | None:
        """Take out the thing that has been due longest; None if nothing is due yet."""
        self._put_right()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key], self._due[key]
        self._clean()
        return key

    def due(self, now_ms: int) -> Iterator[Key]:
        """Take out what is due, the longest first, but no more than may be done at once.

        What is left is due still, so that ``next`` is in the past: others get their turn between.
        """
        for _ in range(MAX_AT_ONCE):
            key = self.take(now_ms)
            if key is None:
                return
            yield key

    def _clean(self) -> None:
        """Leave out the places that hold no more, if they are most of all."""
        if len(self._heap) > 2 * len(self._due) + SPARE_PLACES:
            self._queued = dict(self._due)
            self._heap = [(due_ms, key) for key, due_ms in self._due.items()]
            heapq.heapify(self._heap)

    def _put_right(self) -> None:
        """Bring a deadline that holds to the top of the heap."""
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
