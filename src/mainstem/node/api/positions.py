"""Places in a partition, as arguments of operations: earliest, latest, an offset, or a time."""

from datetime import UTC, datetime

from mainstem.broker.door import Door
from mainstem.core.errors import InvalidSetting, OffsetOutOfRange

Place = str | int
"""``earliest``, ``latest``, an offset, or a time such as ``2026-01-31T12:00:00Z``."""
SENTENCE = "earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z"
MAX_OFFSET = 2**63 - 1


def offset_at(door: Door, topic: str, partition: int, place: Place) -> int:
    """Return the offset of a place; for a time, that of the first event at or after it."""
    bounds = door.bounds(topic, partition)
    if place == "earliest":
        return bounds.start
    if place == "latest":
        return bounds.tail
    number = _number(place)
    if number is None:
        found = door.offset_at(topic, partition, _time_ms(str(place)))
        return bounds.tail if found is None else found.offset
    if not 0 <= number <= bounds.tail:
        where = f"partition {partition} of topic {topic!r}"
        raise OffsetOutOfRange(where, min(number, MAX_OFFSET), bounds.start, bounds.tail)
    return number


def numbers_of(door: Door, topic: str, partition: int | None) -> list[int]:
    """Return the partition number in a list, or all of the topic's if it is None."""
    known = len(door.topic(topic).partitions)
    return list(range(known)) if partition is None else [partition]


def _number(place: Place) -> int | None:
    if isinstance(place, int):
        return place
    return int(place[:20]) if place.isascii() and place.isdigit() else None


def _time_ms(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSetting(f"{text!r:.100} is no place: give {SENTENCE}") from None
    # A time without a zone is UTC, as the caller may be in another zone than the server.
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
