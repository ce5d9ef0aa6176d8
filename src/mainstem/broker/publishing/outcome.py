"""A received record batch, and the outcome of its append."""

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.broker.publishing.overload import HeldPublish
from mainstem.broker.topics.catalog import Topic
from mainstem.core.batch import BatchHeader
from mainstem.core.errors import MainstemError, UnknownPartition, UnknownTopic
from mainstem.log.port import Appended, Durable, WritableBatch


class CheckedBatch(NamedTuple):
    """A batch that was checked, as it will be stored, and the number of its partition."""

    number: int
    batch: WritableBatch
    header: BatchHeader
    appended_ms: int = -1
    """The append time given to the batch, -1 if it keeps its producer's timestamps."""
    place: int = 0
    """The index of the batch among all received batches."""


class AppendedBatch(NamedTuple):
    """An appended batch; ``durable`` is done when its topic's durability is reached."""

    offset: int
    durable: Durable
    events: int
    start: int
    """The log start offset of the batch's partition."""
    appended_ms: int = -1
    """The append time given to the batch, -1 if it keeps its producer's timestamps."""


AppendOutcome = AppendedBatch | MainstemError


AppendOutcomes = tuple[list[AppendOutcome], HeldPublish | None]
"""The outcomes of batches given together, and the hold if backpressure holds one of them: then
neither that batch nor a later one was appended, and the outcomes are of those before it.
"""


def appended_batches(given: Sequence[CheckedBatch], appended: Appended) -> list[AppendOutcome]:
    """Return the outcomes of an append, for the batches it appended: perhaps only the first."""
    durable = appended.durable
    return [
        AppendedBatch(offset, durable, header.count, start, appended_ms)
        for (_, _, header, appended_ms, _), offset, start in zip(
            given, appended.offsets, appended.starts, strict=False
        )
    ]


def named(topic: Topic, error: MainstemError) -> MainstemError:
    """Return an append's error, with the topic's name where the log's error has only its id."""
    if isinstance(error, UnknownPartition) and error.topic != topic.name:
        # The topic was deleted meanwhile.
        return UnknownTopic(topic.name)
    return error
