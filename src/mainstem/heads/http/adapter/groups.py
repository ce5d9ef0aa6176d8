"""Groups over HTTP: committed positions under a name, from which clients read on.

A group of HTTP clients has no members: its clients do not own partitions, and each may commit. A
group with members that are connected by another protocol refuses commits over HTTP.
"""

from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from mainstem.broker.door import Door
from mainstem.core.errors import InvalidSetting, OffsetOutOfRange
from mainstem.core.names import check_group
from mainstem.heads.http.adapter.json_bodies import as_json, read_json
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.positions import parsed, written
from mainstem.heads.web.waits import until_durable

if TYPE_CHECKING:
    from starlette.requests import Request


class GroupPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The committed position of a group in a topic: the next offset to read in each partition."""

    position: str


class PartitionLag(msgspec.Struct, frozen=True):
    """The committed offset of a group in one partition, and its lag in events."""

    partition: int
    offset: int | None
    lag: int


class GroupInTopic(msgspec.Struct, frozen=True):
    """The committed position of a group in a topic, and its lag in events."""

    group: str
    topic: str
    position: str
    lag: int
    partitions: list[PartitionLag]


def group_of(request: "Request") -> str:
    """Return the group in a request's path; raises InvalidName."""
    name: str = request.path_params["group"]
    check_group(name)
    return name


async def show(service: Service, request: "Request") -> Response:
    """Answer with the committed position and the lag of a group in a topic."""
    topic, group = topic_of(request), group_of(request)
    door = service.door(request.scope)
    door.topic(topic)
    lags = door.lag(group, topic)
    partitions = [PartitionLag(each.partition, each.cursor, each.lag) for each in lags]
    position = {each.partition: each.offset for each in partitions if each.offset is not None}
    total = sum(each.lag for each in partitions)
    return as_json(GroupInTopic(group, topic, written(position), total, partitions))


async def commit(service: Service, request: "Request") -> Response:
    """Commit the position of a group in a topic."""
    topic, group = topic_of(request), group_of(request)
    door = service.door(request.scope)
    said = parsed((await read_json(request, GroupPosition)).position)
    check_position(door, topic, said)
    offsets = {(topic, partition): offset for partition, offset in said.items()}
    await until_durable(service.context, door.commit(group, offsets))
    return Response(status_code=204)


async def delete(service: Service, request: "Request") -> Response:
    """Delete a group with all its committed positions."""
    door = service.door(request.scope)
    await until_durable(service.context, door.delete_group(group_of(request)))
    return Response(status_code=204)


def check_position(door: Door, topic: str, position: dict[int, int]) -> None:
    """Raise an error if a position is empty, past a partition's end, or in an unknown one."""
    if not position:
        raise InvalidSetting("a position names at least one partition")
    for partition, offset in position.items():
        bounds = door.bounds(topic, partition)
        if offset > bounds.tail:
            place = f"partition {partition} of topic {topic!r}"
            raise OffsetOutOfRange(place, offset, bounds.start, bounds.tail)


def committed(door: Door, topic: str, group: str, partitions: list[int]) -> dict[int, int]:
    """Return a group's committed offsets in these partitions of a topic, without unset ones.

    An offset that retention has deleted is replaced by the first one of its partition.
    """
    check_group(group)
    found: dict[int, int] = {}
    for partition in partitions:
        cursor = door.cursor(group, topic, partition)
        if cursor is not None and not cursor.is_unset:
            found[partition] = max(cursor.offset, door.bounds(topic, partition).start)
    return found
