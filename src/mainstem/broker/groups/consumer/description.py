"""Consumer groups as an administrator sees them."""

from enum import StrEnum

import msgspec

from mainstem.broker.groups.assignors import preferred
from mainstem.broker.groups.consumer.records import ConsumerGroup, ConsumerMember, Epochs, Stage


class ConsumerPhase(StrEnum):
    """How far the members of a group have come."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroupDescription(msgspec.Struct, frozen=True):
    """A group, as an administrator sees it."""

    name: str
    phase: ConsumerPhase
    epochs: Epochs
    assignor: str
    members: tuple[ConsumerMember, ...]


def described(group: ConsumerGroup) -> ConsumerGroupDescription:
    """Return a group as it is now."""
    members = tuple(group.members[each] for each in sorted(group.members))
    assignor = preferred(group.assignors)
    return ConsumerGroupDescription(group.name, _phase(group), group.epochs, assignor, members)


def _phase(group: ConsumerGroup) -> ConsumerPhase:
    if not group.members:
        return ConsumerPhase.EMPTY
    epoch = group.epochs.assignment
    if group.epochs.group > epoch:
        return ConsumerPhase.ASSIGNING
    is_stable = all(
        each.current.epoch == epoch and each.current.stage is Stage.STABLE
        for each in group.members.values()
    )
    return ConsumerPhase.STABLE if is_stable else ConsumerPhase.RECONCILING
