"""Checks the fate of every event of a queue after the queue was drained.

After Jepsen's checker of that name: every event is put in once, under a number of its own.

- lost: acknowledged to the producer, and nobody has worked on it
- unexpected: taken from the queue, and nobody has put it in
- duplicated: worked on and acknowledged to the consumer more than once
- redelivered: taken more than once, as it should be if a consumer has failed
- in doubt: its consumer never heard whether its acknowledgement was heard

What a consumer lost with its connection, before it acknowledged it, is given back: it comes again.
"""

import threading
from collections import Counter

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """What was found."""

    lost: tuple[int, ...] = ()
    unexpected: tuple[int, ...] = ()
    duplicated: tuple[int, ...] = ()
    redelivered: int = 0
    in_doubt: int = 0

    @property
    def wrong(self) -> tuple[tuple[int, ...], ...]:
        """What must never be, whatever fails."""
        return self.lost, self.unexpected, self.duplicated


NOTHING_WRONG: tuple[tuple[int, ...], ...] = ((), (), ())


class TotalQueue:
    """Filled by threads of producers and consumers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.attempted: set[int] = set()
        self.acknowledged: set[int] = set()
        self.taken: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.doubted: Counter[int] = Counter()
        self.given_back: Counter[int] = Counter()

    def note(self, deed: str, number: int) -> None:
        """Take note of what somebody has done with an event."""
        with self._changed:
            match deed:
                case "attempted":
                    self.attempted.add(number)
                case "acknowledged":
                    self.acknowledged.add(number)
                case "took":
                    self.taken[number] += 1
                case "done":
                    self.done[number] += 1
                case "doubt":
                    self.doubted[number] += 1
                case "gave back":
                    self.given_back[number] += 1
                case _:
                    raise ValueError(deed)
            self._changed.notify_all()

    def wait_until_acknowledged(self, count: int, timeout_s: float) -> bool:
        """Wait until so many events are acknowledged to their producers."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.acknowledged) >= count, timeout_s)

    def wait_until_done(self, count: int, timeout_s: float) -> bool:
        """Wait until so many events are done."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.done) >= count, timeout_s)

    def wait_until_all_done(self, numbers: set[int], timeout_s: float) -> bool:
        """Wait until these events are done."""
        with self._changed:
            return self._changed.wait_for(lambda: self.done.keys() >= numbers, timeout_s)

    def wait_until_duplicated(self, timeout_s: float) -> bool:
        """Wait until an event is done twice."""
        with self._changed:
            return self._changed.wait_for(lambda: max(self.done.values()) > 1, timeout_s)

    def wait_until_drained(self, timeout_s: float) -> bool:
        """Wait until nothing is left of what was acknowledged, and nobody holds anything."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._left() and not self._held(), timeout_s)

    def verdict(self) -> Verdict:
        """Judge; to be asked for when the queue is drained."""
        with self._changed:
            return Verdict(
                lost=tuple(sorted(self._left())),
                unexpected=tuple(sorted(self.taken.keys() - self.attempted)),
                duplicated=tuple(sorted(at for at, count in self.done.items() if count > 1)),
                redelivered=sum(count - 1 for count in self.taken.values()),
                in_doubt=len(self.doubted.keys() - self.done.keys()),
            )

    def _left(self) -> set[int]:
        return self.acknowledged - self.done.keys() - self.doubted.keys()

    def _held(self) -> int:
        ended = self.done.total() + self.doubted.total() + self.given_back.total()
        return self.taken.total() - ended
