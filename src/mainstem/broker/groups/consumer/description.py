"""Descriptions of consumer groups, for administrators."""

import msgspec

from mainstem.broker.groups.assignors import preferred
from mainstem.broker.groups.consumer.records import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerPhase,
    Epochs,
    Stage,
)


class ConsumerGroupDescription(msgspec.Struct, frozen=True):
    """The description of a group, for administrators."""

    name: str
    phase: ConsumerPhase
    epochs: Epochs
    assignor: str
    members: tuple[ConsumerMember, ...]


def described(group: ConsumerGroup) -> ConsumerGroupDescription:
    """Return the description of a group."""
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
