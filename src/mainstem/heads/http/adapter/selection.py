"""Parses which events a request selects: positions, partitions, key, filters, limit."""

from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import Door
from mainstem.core.errors import InvalidSetting, UnknownPartition
from mainstem.heads.http.adapter.groups import committed
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.filters import Matches, matching
from mainstem.heads.http.positions import starts

if TYPE_CHECKING:
    from starlette.requests import Request

DEFAULT_LIMIT = 100


class Selection(msgspec.Struct, frozen=True):
    """The events that a request selects, and how long it waits for the first."""

    topic: str
    starts: dict[int, int]
    ends: dict[int, int] | None
    matches: Matches | None
    limit: int
    wait_ms: int


def number(request: "Request", name: str, default: int, most: int, least: int = 0) -> int:
    """Return a number from the query, checked; raises InvalidSetting."""
    said = request.query_params.get(name)
    if said is None:
        return default
    if said.isascii() and said.isdigit() and len(said) < 20 and least <= int(said) <= most:
        return int(said)
    raise InvalidSetting(f"{name} must be a whole number from {least} to {most}, not {said!r:.50}")


def partitions_of(door: Door, topic: str, request: "Request") -> list[int]:
    """Return the partitions that a request names, all of the topic if it names none."""
    count = len(door.topic(topic).partitions)
    said = request.query_params.getlist("partition")
    if not said:
        return list(range(count))
    chosen: dict[int, None] = {}
    for each in said:
        if not (each.isascii() and each.isdigit() and len(each) < 10):
            raise InvalidSetting(f"partition {each!r:.50} is not a number")
        if int(each) >= count:
            raise UnknownPartition(topic, int(each), count)
        chosen[int(each)] = None
    return list(chosen)


def first_of(door: Door, request: "Request", said: str, partitions: list[int]) -> dict[int, int]:
    """Return where a request starts to read in each partition: at its group's committed offset.

    Without a group, or where this has none, at ``said`` (see ``positions.starts``).
    """
    topic, group = topic_of(request), request.query_params.get("group")
    if group is None:
        return starts(door, topic, said, partitions)
    known = committed(door, topic, group, partitions)
    rest = [number for number in partitions if number not in known]
    return known | (starts(door, topic, said, rest) if rest else {})


def selection(service: Service, door: Door, request: "Request", default: str) -> Selection:
    """Return the events that a request selects; ``default``: where it starts without ``from``."""
    topic = topic_of(request)
    partitions = partitions_of(door, topic, request)
    query = request.query_params
    until = query.get("to")
    return Selection(
        topic,
        first_of(door, request, query.get("from", default), partitions),
        None if until is None else starts(door, topic, until, partitions),
        matching(query.get("key"), query.getlist("filter")),
        number(request, "limit", DEFAULT_LIMIT, service.settings.max_events, 1),
        number(request, "wait_s", 0, service.settings.max_wait_s) * 1000,
    )
