"""Finds a member by member id and instance id [KIP-345], in classic and consumer groups."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from mainstem.core.errors import FencedInstance, UnknownMember

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class GroupWithMembers(Protocol[M_co]):
    """What classic groups and consumer groups have in common."""

    @property
    def name(self) -> str:
        """The group's name."""

    @property
    def members(self) -> Mapping[str, M_co]:
        """The group's members by member id."""

    @property
    def static(self) -> Mapping[str, str]:
        """The member ids of the group's static members, by instance id."""


def known_member(group: GroupWithMembers[M], member_id: str, instance_id: str | None) -> M:
    """Return a member; raises UnknownMember, or FencedInstance if another has its instance id."""
    if instance_id is not None:
        holder = group.static.get(instance_id)
        if holder is not None and holder != member_id:
            raise FencedInstance(group.name, instance_id)
        if holder is None:
            raise UnknownMember(group.name, member_id)
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMember(group.name, member_id)
    return member
