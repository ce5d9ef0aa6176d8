"""What CreateTopics, DeleteTopics and CreatePartitions share."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from mainstem.kafka_protocol.error_codes import Code

NAMED_TWICE = "it is named more than once"
T = TypeVar("T")
K = TypeVar("K")
Wrong = tuple[Code, str] | None
"""Error code and message, None if all is well."""


def named_once(asked: Sequence[T], name: Callable[[T], K]) -> tuple[list[T], list[K]]:
    """Return the items named once, and the names given more than once."""
    counts = Counter(map(name, asked))
    return [it for it in asked if counts[name(it)] == 1], [it for it in counts if counts[it] > 1]


def misplaced(places: Iterable[Sequence[int]]) -> Wrong:
    """Return what is wrong with the brokers that partitions are assigned to."""
    # Any broker id is accepted: there is one broker, and scripts need not know its id.
    if any(len(each) != 1 or min(each) < 0 for each in places):
        return Code.INVALID_REPLICA_ASSIGNMENT, "every partition has one copy, on one broker"
    return None
