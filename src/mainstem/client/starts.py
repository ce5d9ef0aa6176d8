"""Where reading begins: an end of the log, an offset, a time, or offsets by partition."""

from collections.abc import Mapping
from datetime import datetime

from mainstem.broker.door import Door
from mainstem.client.stem import Start
from mainstem.core.errors import InvalidSetting, OffsetOutOfRange

_MAX_OFFSET = 2**63 - 1


def check_start(start: Start) -> None:
    """Refuse what is no place to begin."""
    if start in ("earliest", "latest") or isinstance(start, datetime):
        return
    numbers = start.values() if isinstance(start, Mapping) else (start,)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidSetting(
                f"cannot begin at {number!r}: give 'earliest', 'latest', an offset, a datetime, "
                "or a mapping of partitions to offsets"
            )
        if not 0 <= number <= _MAX_OFFSET:
            raise InvalidSetting(f"cannot begin at offset {number}; offsets begin at 0")


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
