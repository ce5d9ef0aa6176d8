"""Lag of groups, by partition and in total."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mainstem.broker.state import State
from mainstem.log.port import PartitionId


class Lag(msgspec.Struct, frozen=True):
    """The lag of a group in one partition."""

    group: str
    topic: str
    partition: int
    cursor: int | None
    """The next offset the group will read; None if it has not committed here."""
    start: int
    tail: int
    lag: int
    """Events not yet read; counted from the log's start if the group has committed nothing."""
    missed: int = 0
    """Events that were deleted before the group committed them."""
    member: str | None = None
    """The id of the member that owns the partition now, None if there is none."""


class GroupState(msgspec.Struct, frozen=True):
    """A group: its members, their partitions, and its lag."""

    name: str
    state: Literal["empty", "live"]
    members: dict[str, tuple[tuple[str, int], ...]]
    """The partitions (topic, number) of each member, by member id."""
    lags: tuple[Lag, ...]


Owned = Mapping[str, Iterable[tuple[str, int]]]
"""The partitions of each member, by member id."""
NOBODY: Owned = {}


def lag(
    state: State, group: str, topic: str | None = None, others: Owned = NOBODY
) -> tuple[Lag, ...]:
    """Return a group's lag in all partitions of a topic, or in all with a cursor or an owner.

    ``others``: the partitions of members that use one of Kafka's group protocols.
    """
    owners = state.groups.owners(group) | {
        known.partitions[number]: member
        for member, places in others.items()
        for name, number in places
        if (known := state.topics.find(name)) and 0 <= number < len(known.partitions)
    }
    if topic is not None:
        partitions = set(state.topics.get(topic).partitions)
    else:
        partitions = owners.keys() | state.cursors.of(group).keys()
    found = [_lag(state, group, at, owners.get(at)) for at in partitions]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))


def group_state(state: State, group: str, others: Owned = NOBODY) -> GroupState:
    """Return a group: its members, their partitions, and its lag.

    ``others``: the partitions of members that use one of Kafka's group protocols.
    """
    members = (*state.groups.members(group), *others)
    owned: dict[str, list[tuple[str, int]]] = {member: [] for member in members}
    lags = lag(state, group, others=others)
    for each in lags:
        if each.member is not None:
            owned[each.member].append((each.topic, each.partition))
    return GroupState(
        group,
        "live" if state.groups.is_live(group) else "empty",
        {member: tuple(places) for member, places in owned.items()},
        lags,
    )


def _lag(state: State, group: str, partition: PartitionId, member: str | None) -> Lag:
    topic = state.topics.by_id(partition.topic_id)
    cursor = state.cursors.at(group, partition)
    start, tail = state.log.bounds(partition)[:2]
    read = start if cursor is None else max(cursor.offset, start)
    gate = state.gates.get(partition.topic_id)
    if gate is not None:
        missed = gate.missed(group, partition, start)
    else:
        missed = 0 if cursor is None else max(0, start - cursor.offset)
    return Lag(
        group,
        topic.name if topic is not None else partition.topic_id,
        partition.number,
        None if cursor is None else cursor.offset,
        start,
        tail,
        max(0, tail - read),
        missed,
        member,
    )
