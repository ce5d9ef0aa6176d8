"""Partitions in requests: applies a function to each, and checks that they exist."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Service
from mainstem.kafka_protocol.messages.partitions import ByName

P = TypeVar("P")
R = TypeVar("R")


def each_partition(
    topics: Iterable[ByName[P]], result: Callable[[str, P], R]
) -> tuple[ByName[R], ...]:
    """Call ``result`` with topic name and partition, for each; return the results by topic."""
    return tuple(
        ByName(topic.name, tuple(result(topic.name, each) for each in topic.partitions))
        for topic in topics
    )


def missing_partition(service: Service, topic: str, number: int) -> int:
    """Return 0 if the partition exists, else the error code."""
    try:
        service.broker.bounds(topic, number)
    except MainstemError as error:
        return code_of(error)
    return 0
