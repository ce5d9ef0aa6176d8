"""Where a subscription of a log in this process starts and ends, in each partition."""

from collections.abc import Mapping
from datetime import datetime

from mainstem.broker.door import Door, PartitionId, TopicPartition
from mainstem.client.embedded.partition_reader import PartitionReader
from mainstem.client.start_positions import Start
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.names import is_pattern

"""A partition, as topic and number."""


def offset_of(broker: Door, topic: str, partition: int, start: Start) -> int:
    """Return the offset at which ``start`` (an offset, a time, …) is now in a partition.

    A time means the first event at or after it, or the tail if there is none. A partition that a
    mapping leaves out starts at its earliest event. Raises OffsetOutOfRange for an offset past the
    tail.
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


def partitions_of(broker: Door, topics: tuple[str, ...]) -> list[TopicPartition]:
    """Return the partitions of topics, given by names or patterns; raises UnknownTopic."""
    found: dict[TopicPartition, None] = {}
    for wanted in topics:
        known = broker.topics(wanted) if is_pattern(wanted) else [broker.topic(wanted)]
        for topic in known:
            for at in topic.partitions:
                found[topic.name, at.number] = None
    return list(found)


class StartOffsets:
    """Where a subscription starts and ends in each partition.

    It stores the tails when the subscription begins: they are the start for ``latest``, and the end
    without ``follow``.
    """

    def __init__(self, broker: Door, options: SubscriptionOptions) -> None:
        self._broker = broker
        self._options = options
        # By id, as a new topic of the same name has other offsets.
        self._tails = {
            self._id(*place): broker.bounds(*place).tail
            for place in partitions_of(broker, options.topics)
        }

    def reader(self, topic: str, partition: int, cursor: int | None) -> PartitionReader:
        """Return a reader that starts at ``cursor``; if None, where the subscription starts."""
        offset = self._first(topic, partition) if cursor is None else cursor
        # A partition created later begins after the end, so nothing of it is read.
        limit = None if self._options.follow else self._tails.get(self._id(topic, partition), 0)
        return PartitionReader(self._broker, topic, partition, offset, limit)

    def _first(self, topic: str, partition: int) -> int:
        start, known = self._options.start, self._tails.get(self._id(topic, partition))
        if known is None and not isinstance(start, datetime):
            # The partition was created later, so ``start`` cannot refer to it: read it from its
            # first event.
            return self._broker.bounds(topic, partition).start
        if known is not None and start == "latest":
            return known
        return offset_of(self._broker, topic, partition, start)

    def _id(self, topic: str, partition: int) -> PartitionId:
        return PartitionId(self._broker.topic(topic).id, partition)
