"""The sticky assignor: distributes partitions evenly, and moves as few as possible.

How this works: partitions that the same members may own form a class; if all members subscribe to
the same topics, there is one class. Owners keep their partitions at first. Partitions without an
owner go to the member with the fewest. Then, class by class, partitions move from the member with
the most to the one with the fewest until they differ by one at most, with no needless move. If
subscriptions differ, this repeats over all classes until no single move helps, as a move in one
class may allow another in the next; the result is as even as single moves can make it.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mainstem.log.port import PartitionId

Readers = frozenset[str]


def assign(
    topics: Mapping[str, Sequence[PartitionId]],
    members: Mapping[str, frozenset[str]],
    current: Mapping[PartitionId, str],
) -> dict[PartitionId, str]:
    """Return the member that should own each partition.

    ``topics``: the partitions of each topic. ``members``: the topics that each member subscribes
    to, in join order. ``current``: the present owners. Topics without subscribers are left out.
    """
    classes = _classes(topics, members)
    rank = {member: number for number, member in enumerate(members)}
    loads = dict.fromkeys(members, 0)
    owners: dict[PartitionId, str] = {}
    found = _Assignment(owners, loads, rank)
    for readers, partitions in classes.items():
        for partition in partitions:
            owner = current.get(partition)
            if owner in readers:
                owners[partition] = owner
                loads[owner] += 1
    for readers in sorted(classes, key=len):
        _place(classes[readers], readers, found)
    is_level = False
    while not is_level:
        is_level = True
        for readers, partitions in classes.items():
            if _level(partitions, readers, found):
                is_level = False
    return owners


class _Assignment(NamedTuple):
    """An assignment in the making, and the order of members with equally many partitions."""

    owners: dict[PartitionId, str]
    loads: dict[str, int]
    rank: Mapping[str, int]


def _classes(
    topics: Mapping[str, Sequence[PartitionId]], members: Mapping[str, frozenset[str]]
) -> dict[Readers, list[PartitionId]]:
    """Group partitions by the members that may own them, ordered by topic name and number."""
    readers_of: dict[str, list[str]] = {}
    for member, names in members.items():
        for name in names:
            readers_of.setdefault(name, []).append(member)
    classes: dict[Readers, list[PartitionId]] = {}
    for name in sorted(readers_of):
        partitions = topics.get(name)
        if partitions:
            classes.setdefault(frozenset(readers_of[name]), []).extend(partitions)
    return classes


def _place(partitions: Sequence[PartitionId], readers: Readers, found: _Assignment) -> None:
    """Give every partition without an owner to the member with the fewest partitions."""
    owners, loads, rank = found
    free = [partition for partition in partitions if partition not in owners]
    if not free:
        return
    heap = [(loads[member], rank[member], member) for member in readers]
    heapq.heapify(heap)
    for partition in free:
        load, number, member = heap[0]
        owners[partition] = member
        loads[member] = load + 1
        heapq.heapreplace(heap, (load + 1, number, member))


def _level(partitions: Sequence[PartitionId], readers: Readers, found: _Assignment) -> bool:
    """Move partitions from the member with the most to the one with the fewest.

    Return whether any moved.

    Heap entries with an outdated number of partitions stay in the heaps, and are skipped when they
    are popped.
    """
    owners, loads, rank = found
    held: dict[str, list[PartitionId]] = {}
    for partition in partitions:
        held.setdefault(owners[partition], []).append(partition)
    fullest = [(-loads[member], -rank[member], member) for member in held]
    emptiest = [(loads[member], rank[member], member) for member in readers]
    heapq.heapify(fullest)
    heapq.heapify(emptiest)
    moved = False
    while True:
        while -fullest[0][0] != loads[fullest[0][2]] or not held.get(fullest[0][2]):
            heapq.heappop(fullest)
        while emptiest[0][0] != loads[emptiest[0][2]]:
            heapq.heappop(emptiest)
        most, least = fullest[0][2], emptiest[0][2]
        if loads[most] - loads[least] <= 1:
            return moved
        partition = held[most].pop()
        held.setdefault(least, []).append(partition)
        owners[partition] = least
        loads[most] -= 1
        loads[least] += 1
        for member in (most, least):
            heapq.heappush(fullest, (-loads[member], -rank[member], member))
            heapq.heappush(emptiest, (loads[member], rank[member], member))
        moved = True
