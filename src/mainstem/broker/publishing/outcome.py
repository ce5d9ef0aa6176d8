"""A record batch that arrived, and what became of it."""

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.core.batch import BatchHeader
from mainstem.core.errors import MainstemError
from mainstem.log.port import Appended, Durable, WritableBatch


class CheckedBatch(NamedTuple):
    """A batch that is whole and may be appended to a partition by number."""

    number: int
    batch: WritableBatch
    header: BatchHeader
    place: int = 0
    """Its place among all that arrived."""


class AppendedBatch(NamedTuple):
    """A batch that is in its partition, and when it is as durable as its topic says."""

    offset: int
    durable: Durable
    events: int
    start: int
    """Where its partition starts."""
    appended_ms: int = -1
    """The time that its topic gave to it, -1 if it keeps its own."""


AppendOutcome = AppendedBatch | MainstemError


def appended_batches(given: Sequence[CheckedBatch], appended: Appended) -> list[AppendOutcome]:
    """Return what became of batches: of the first ones, if not all were appended."""
    durable = appended.durable
    return [
        AppendedBatch(offset, durable, each.header.count, start)
        for each, offset, start in zip(given, appended.offsets, appended.starts, strict=False)
    ]
