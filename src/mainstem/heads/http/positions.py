"""Positions in the partitions of a topic as text (``0:12,1:5``), and where reading starts."""

from collections.abc import Collection, Mapping
from datetime import datetime

from mainstem.broker.door import Door
from mainstem.core.errors import InvalidSetting, UnknownPartition

EARLIEST, LATEST = "earliest", "latest"
_MAX_OFFSET = 2**63 - 1
_MAX_TEXT = 1024 * 1024
"""Maximum length of a position as text: that of some 50,000 partitions."""


def written(offsets: Mapping[int, int]) -> str:
    """Convert offsets by partition to text, such as ``0:12,1:5``."""
    return ",".join(f"{partition}:{offsets[partition]}" for partition in sorted(offsets))


def parsed(text: str) -> dict[int, int]:
    """Convert a position as text to offsets by partition; raises InvalidSetting."""
    found: dict[int, int] = {}
    for each in text.split(",") if len(text) <= _MAX_TEXT else [""]:
        partition, colon, offset = each.strip().partition(":")
        if not colon or not _is_number(partition) or not _is_number(offset):
            raise InvalidSetting(
                f"{text!r:.200} is no position: write PARTITION:OFFSET, separated by commas, "
                "such as 0:12,1:5"
            )
        found[int(partition)] = int(offset)
    return found


def starts(door: Door, topic: str, said: str, partitions: Collection[int]) -> dict[int, int]:
    """Return the first offset to read in each of these partitions.

    ``said``: earliest, latest, an offset, a position (``0:12,1:5``) or an ISO 8601 time. A
    partition that the position does not name is read from its earliest event, because it was added
    later. Raises UnknownPartition for a partition that does not exist.
    """
    if said == EARLIEST:
        return {number: door.bounds(topic, number).start for number in partitions}
    if said == LATEST:
        return {number: door.bounds(topic, number).tail for number in partitions}
    if _is_number(said):
        if len(partitions) > 1:
            raise InvalidSetting(
                f"topic {topic!r} has {len(partitions)} partitions, so the offset {said:.30} alone "
                f"does not say where to start: add a partition, or write 0:{said:.30}"
            )
        return dict.fromkeys(partitions, int(said))
    if ":" in said and "-" not in said:
        named = parsed(said)
        count = len(door.topic(topic).partitions)
        for number in named:
            if number >= count:
                raise UnknownPartition(topic, number, count)
        return {
            number: named[number] if number in named else door.bounds(topic, number).start
            for number in partitions
        }
    return _at_time(door, topic, _time_ms(said), partitions)


def _at_time(
    door: Door, topic: str, timestamp_ms: int, partitions: Collection[int]
) -> dict[int, int]:
    found: dict[int, int] = {}
    for number in partitions:
        first = door.offset_at(topic, number, timestamp_ms)
        found[number] = door.bounds(topic, number).tail if first is None else first.offset
    return found


def _time_ms(said: str) -> int:
    try:
        # In a query, an unescaped plus sign means a space.
        time = datetime.fromisoformat(said.replace(" ", "+") if "T" in said else said)
        if time.tzinfo is None:
            raise ValueError(said)
        return int(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidSetting(
            f"{said!r:.200} is not a place to start: use earliest, latest, an offset, a position "
            "such as 0:12,1:5, or a time with its zone such as 2026-01-31T12:00:00Z"
        ) from None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MAX_OFFSET
