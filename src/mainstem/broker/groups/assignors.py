"""How partitions are shared among members, by the names under which consumers ask for it.

``uniform`` gives everybody about as many, and moves as few as it can. ``range`` gives everybody a
run of neighbouring partitions of each topic, the same run in topics with as many partitions: who
joins topics by key finds both sides with one member.
"""

from collections.abc import Callable, Mapping, Sequence

from mainstem.broker.groups.sticky_assignor import assign
from mainstem.log.port import PartitionId

Topics = Mapping[str, Sequence[PartitionId]]
"""The partitions of each topic that somebody reads."""
Reads = Mapping[str, frozenset[str]]
"""The topics that each member reads; the order of members is theirs to be served in."""
Targets = Mapping[PartitionId, str]
"""Who should own each partition."""


def in_ranges(topics: Topics, reads: Reads, current: Targets) -> dict[PartitionId, str]:
    """Give every member a run of each topic, in the order of members; who had what is no matter."""
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
"""Every assignor by its name; the first is taken unless members ask for another."""
DEFAULT = "uniform"


def preferred(asked: Mapping[str, int]) -> str:
    """Return the assignor that most members ask for."""
    return max(sorted(asked), key=lambda name: asked[name]) if asked else DEFAULT
