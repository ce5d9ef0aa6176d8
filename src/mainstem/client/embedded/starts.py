"""The offsets at which a subscription begins and ends in the partitions of the embedded log."""

from collections.abc import Mapping
from datetime import datetime

from mainstem.broker.door import Door, PartitionId
from mainstem.client.embedded.partition_reader import PartitionReader
from mainstem.client.starts import Start
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.names import is_pattern

Place = tuple[str, int]
"""A partition: topic and number."""


def offset_of(broker: Door, topic: str, partition: int, start: Start) -> int:
    """Return the offset that a start means in a partition now.

    A time means the first event at or after it, or the tail. A partition that a mapping leaves
    out begins at its earliest event. An offset past the tail is refused.
    """
    bounds = broker.bounds(topic, partition)
    if isinstance(start, datetime):
        found = broker.offset_at(topic, partition, int(start.timestamp() * 1000))
        return bounds.tail if found is None else found.offset
    if start == "latest":
        return bounds.tail
    if start == "earliest":
        return bounds.start
    number = start.get(partition, bounds.start) if isinstance(start, Mapping) else start
    if not isinstance(number, int) or number > bounds.tail:
        place = f"partition {partition} of topic {topic!r}"
        raise OffsetOutOfRange(place, int(number), bounds.start, bounds.tail)
    return number


def partitions_of(broker: Door, topics: tuple[str, ...]) -> list[Place]:
    """Return the partitions that names and patterns mean now; an unknown name is refused."""
    found: dict[Place, None] = {}
    for wanted in topics:
        known = broker.topics(wanted) if is_pattern(wanted) else [broker.topic(wanted)]
        for topic in known:
            for at in topic.partitions:
                found[topic.name, at.number] = None
    return list(found)


class StartOffsets:
    """The moment a subscription began: ``latest`` means that, and so does the end of reading."""

    def __init__(self, broker: Door, options: SubscriptionOptions) -> None:
        self._broker = broker
        self._options = options
        # By id: another topic of the same name has offsets of its own.
        self._tails = {
            self._id(*place): broker.bounds(*place).tail
            for place in partitions_of(broker, options.topics)
        }

    def reader(self, topic: str, partition: int, cursor: int | None) -> PartitionReader:
        """Return a partition to be read: from the cursor, if there is one, or from the start."""
        offset = self._first(topic, partition) if cursor is None else cursor
        # What was created later is all after the end.
        limit = None if self._options.follow else self._tails.get(self._id(topic, partition), 0)
        return PartitionReader(self._broker, topic, partition, offset, limit)

    def _first(self, topic: str, partition: int) -> int:
        start, known = self._options.start, self._tails.get(self._id(topic, partition))
        if known is None and not isinstance(start, datetime):
            # Created later: it is all new, and no offset that was given can have meant it.
            return self._broker.bounds(topic, partition).start
        if known is not None and start == "latest":
            return known
        return offset_of(self._broker, topic, partition, start)

    def _id(self, topic: str, partition: int) -> PartitionId:
        return PartitionId(self._broker.topic(topic).id, partition)
