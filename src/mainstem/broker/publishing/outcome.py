"""A received record batch, and the outcome of its append."""

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.core.batch import BatchHeader
from mainstem.core.errors import MainstemError
from mainstem.log.port import Appended, Durable, WritableBatch


class CheckedBatch(NamedTuple):
    """A batch whose header was checked, for a partition by number."""

    number: int
    batch: WritableBatch
    header: BatchHeader
    place: int = 0
    """Its index among all received batches."""


class AppendedBatch(NamedTuple):
    """An appended batch, and when it has the durability of its topic."""

    offset: int
    durable: Durable
    events: int
    start: int
    """The start offset of its partition."""
    appended_ms: int = -1
    """Its append time, -1 if it keeps its producer's timestamps."""


AppendOutcome = AppendedBatch | MainstemError


def appended_batches(given: Sequence[CheckedBatch], appended: Appended) -> list[AppendOutcome]:
    """Return the outcomes of batches; only of the first ones, if not all were appended."""
    durable = appended.durable
    return [
        AppendedBatch(offset, durable, each.header.count, start)
        for each, offset, start in zip(given, appended.offsets, appended.starts, strict=False)
    ]
