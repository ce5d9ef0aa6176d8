"""Responses with a result for every partition of a request."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from mainstem.kafka_protocol.messages.partitions import ByName

P = TypeVar("P")
R = TypeVar("R")


def each_partition(
    topics: Iterable[ByName[P]], result: Callable[[str, P], R]
) -> tuple[ByName[R], ...]:
    """Return the results of all partitions by topic, in the order of the request."""
    return tuple(
        ByName(topic.name, tuple(result(topic.name, each) for each in topic.partitions))
        for topic in topics
    )
