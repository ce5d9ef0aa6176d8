"""Assignors for consumer groups, by the names that consumers ask for.

``uniform`` gives each member about the same number of partitions and moves as few as possible.
``range`` gives each member a contiguous range of each topic. Topics with the same number of
partitions are divided in the same way, so one member gets both sides of a join by key.
"""

from collections.abc import Callable, Mapping, Sequence

from mainstem.broker.groups.sticky_assignor import assign
from mainstem.log.port import PartitionId

Topics = Mapping[str, Sequence[PartitionId]]
"""The partitions of each topic to which at least one member subscribes."""
Reads = Mapping[str, frozenset[str]]
"""The topics that each member subscribes to; members are served in this order."""
Targets = Mapping[PartitionId, str]
"""The member that should own each partition."""


def in_ranges(topics: Topics, reads: Reads, current: Targets) -> dict[PartitionId, str]:
    """Assign every member a contiguous range of each topic, in member order.

    Ignores the present owners (``current``).
    """
    del current
    found: dict[PartitionId, str] = {}
    for name, partitions in topics.items():
        readers = [member for member, names in reads.items() if name in names]
        if not readers:
            continue
        each, more = divmod(len(partitions), len(readers))
        at = 0
        for number, reader in enumerate(readers):
            size = each + (number < more)
            found |= dict.fromkeys(partitions[at : at + size], reader)
            at += size
    return found


ASSIGNORS: dict[str, Callable[[Topics, Reads, Targets], dict[PartitionId, str]]] = {
    "uniform": assign,
    "range": in_ranges,
}
"""Every assignor by name; the first one is the default."""
DEFAULT = "uniform"


def preferred(asked: Mapping[str, int]) -> str:
    """Return the assignor that most members ask for; ``asked``: the number of members by name."""
    return max(sorted(asked), key=lambda name: asked[name]) if asked else DEFAULT
