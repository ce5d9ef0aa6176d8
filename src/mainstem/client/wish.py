"""What a subscription was asked for, and where that begins and ends in each partition."""

from datetime import datetime
from typing import Literal

import msgspec

from mainstem.broker.door import Door, PartitionId
from mainstem.client.source import Source
from mainstem.client.starts import check_start, offset_of
from mainstem.client.stem import Start
from mainstem.core.errors import InvalidSetting
from mainstem.core.names import is_pattern

Place = tuple[str, int]
"""A partition: topic and number."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscription was asked for."""

    topics: tuple[str, ...]
    group: str | None = None
    start: Start = "earliest"
    follow: bool = True
    commit: Literal["auto", "manual"] = "auto"
    partitions: tuple[int, ...] | None = None
    fetch_bytes: int = 1024 * 1024
    commit_s: float = 1.0

    def check(self) -> None:
        """Refuse what means nothing."""
        check_start(self.start)
        if not self.topics:
            raise InvalidSetting("subscribe to at least one topic, by name or by pattern")
        if self.commit not in ("auto", "manual"):
            raise InvalidSetting(f"commit is 'auto' or 'manual', not {self.commit!r}")
        if self.group is not None and self.partitions is not None:
            raise InvalidSetting(
                "a group shares its partitions out by itself: give a group or partitions, not both"
            )


def places(broker: Door, topics: tuple[str, ...]) -> list[Place]:
    """Return the partitions that names and patterns mean now; an unknown name is refused."""
    found: dict[Place, None] = {}
    for wanted in topics:
        known = broker.topics(wanted) if is_pattern(wanted) else [broker.topic(wanted)]
        for topic in known:
            for at in topic.partitions:
                found[topic.name, at.number] = None
    return list(found)


class Beginning:
    """The moment a subscription began: ``latest`` means that, and so does the end of reading."""

    def __init__(self, broker: Door, wish: Wish) -> None:
        self._broker = broker
        self._wish = wish
        # By id: another topic of the same name has offsets of its own.
        self._tails = {
            self._id(*place): broker.bounds(*place).tail for place in places(broker, wish.topics)
        }

    def source(self, topic: str, partition: int, cursor: int | None) -> Source:
        """Return a partition to be read: from the cursor, if there is one, or from the start."""
        offset = self._first(topic, partition) if cursor is None else cursor
        # What was created later is all after the end.
        limit = None if self._wish.follow else self._tails.get(self._id(topic, partition), 0)
        return Source(self._broker, topic, partition, offset, limit)

    def _first(self, topic: str, partition: int) -> int:
        start, known = self._wish.start, self._tails.get(self._id(topic, partition))
        if known is None and not isinstance(start, datetime):
            # Created later: it is all new, and no offset that was given can have meant it.
            return self._broker.bounds(topic, partition).start
        if known is not None and start == "latest":
            return known
        return offset_of(self._broker, topic, partition, start)

    def _id(self, topic: str, partition: int) -> PartitionId:
        return PartitionId(self._broker.topic(topic).id, partition)
