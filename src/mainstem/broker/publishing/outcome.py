"""A received record batch, and the outcome of its append."""

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.core.batch import BatchHeader
from mainstem.core.errors import MainstemError
from mainstem.log.port import Appended, Durable, WritableBatch


class CheckedBatch(NamedTuple):
    """A batch whose header was checked, and the number of its partition."""

    number: int
    batch: WritableBatch
    header: BatchHeader
    place: int = 0
    """The index of the batch among all received batches."""


class AppendedBatch(NamedTuple):
    """An appended batch; ``durable``: when its topic's durability is reached."""

    offset: int
    durable: Durable
    events: int
    start: int
    """The log start offset of the batch's partition."""
    appended_ms: int = -1
    """The append time given to the batch, -1 if it keeps its producer's timestamps."""


AppendOutcome = AppendedBatch | MainstemError


def appended_batches(given: Sequence[CheckedBatch], appended: Appended) -> list[AppendOutcome]:
    """Return the outcomes of an append; if it took only the first batches, only theirs."""
    durable = appended.durable
    return [
        AppendedBatch(offset, durable, each.header.count, start)
        for each, offset, start in zip(given, appended.offsets, appended.starts, strict=False)
    ]
