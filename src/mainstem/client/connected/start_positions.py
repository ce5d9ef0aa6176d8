"""Start offsets in partitions on a server, for many partitions at a time."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from mainstem.client.start_positions import Start
from mainstem.core.errors import UnknownPartition
from mainstem.remote.admin import Admin, Bounds, Place, out_of_range


def offsets_of(administration: Admin, places: Iterable[Place], start: Start) -> dict[Place, int]:
    """Return the offset at which ``start`` (an offset, a time, …) is now in each partition.

    A time means the first event at or after it, or the tail if there is none. A partition that a
    mapping leaves out starts at its earliest event. Raises OffsetOutOfRange for an offset past the
    tail.
    """
    wanted = list(places)
    bounds = administration.bounds(wanted)
    for topic, number in wanted:
        if (topic, number) not in bounds:
            raise UnknownPartition(topic, number)
    if isinstance(start, datetime):
        found = administration.at_time(wanted, int(start.timestamp() * 1000))
        return {
            place: each.tail if (offset := found.get(place)) is None else offset
            for place, each in bounds.items()
        }
    return {place: _one(place, each, start) for place, each in bounds.items()}


def _one(place: Place, bounds: Bounds, start: object) -> int:
    if start == "latest":
        return bounds.tail
    if start == "earliest":
        return bounds.start
    number = start.get(place[1], bounds.start) if isinstance(start, Mapping) else start
    assert isinstance(number, int)
    if number > bounds.tail:
        raise out_of_range(place, number, bounds)
    return number
