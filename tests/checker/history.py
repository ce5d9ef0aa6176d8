"""What concurrent clients did, as plain data: the history that ``anomalies`` judges.

A client is a process that does one thing after the other. Whatever it sends has a value of its own,
so that an event that is read tells who has sent it, and when.
"""

import itertools
import threading
from collections.abc import Sequence
from enum import StrEnum, auto
from typing import NamedTuple

import msgspec

Place = tuple[str, int]
"""A partition: topic and number."""


class Sent(NamedTuple):
    """An event was sent; without an offset nobody has said where it is."""

    place: Place
    value: str
    offset: int | None = None


class Read(NamedTuple):
    """An event was read."""

    place: Place
    value: str
    offset: int


class Outcome(StrEnum):
    """How an operation has ended."""

    OK = auto()
    ABORTED = auto()
    """What it has sent must never be seen."""
    UNKNOWN = auto()
    """All that it has sent may be seen, or nothing of it."""


class Operation(msgspec.Struct, frozen=True):
    """A transaction, or a poll: what was sent and read in it, in this order."""

    process: str
    outcome: Outcome
    steps: tuple[Sent | Read, ...]
    began: int = 0
    ended: int = 0
    """Moments of a counter that all processes share: what ends before another begins is earlier."""
    group: str = ""
    """The group whose cursors it moves past all that it has read, if it is not aborted."""

    @property
    def sent(self) -> list[Sent]:
        """What was sent."""
        return [step for step in self.steps if isinstance(step, Sent)]

    @property
    def read(self) -> list[Read]:
        """What was read."""
        return [step for step in self.steps if isinstance(step, Read)]


class Moved(msgspec.Struct, frozen=True):
    """A process goes on elsewhere in these partitions: it was assigned them anew, or has sought."""

    process: str
    places: tuple[Place, ...]


History = Sequence[Operation | Moved]


class Recorder:
    """Takes down what processes do, from any thread."""

    def __init__(self) -> None:
        self.history: list[Operation | Moved] = []
        self._moments = itertools.count(1)
        self._lock = threading.Lock()

    def moment(self) -> int:
        """Return the next moment."""
        return next(self._moments)

    def add(
        self,
        process: str,
        outcome: Outcome,
        steps: Sequence[Sent | Read],
        began: int = 0,
        group: str = "",
    ) -> None:
        """Take down an operation that has just ended."""
        with self._lock:
            ended = self.moment()
            self.history.append(
                Operation(process, outcome, tuple(steps), began or ended, ended, group)
            )

    def moved(self, process: str, places: Sequence[Place]) -> None:
        """Take down that a process goes on elsewhere."""
        with self._lock:
            self.history.append(Moved(process, tuple(places)))
