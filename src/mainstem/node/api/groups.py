"""Operations on consumer groups: list, show, seek with preview, delete."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.broker.door import Door, GroupState
from mainstem.core.errors import GroupIsLive, UnknownGroup
from mainstem.core.names import check_group
from mainstem.heads.admin_operations import NoArguments, operation
from mainstem.node.api.door_operations import DoorOperations
from mainstem.node.api.positions import SENTENCE, Place, numbers_of, offset_at


class NameGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a group."""

    group: str


class SeekGroup(NameGroup, frozen=True):
    """Set the committed offsets of a group without members, or preview that."""

    topic: str
    to: Annotated[Place, Meta(description=SENTENCE)]
    partition: Annotated[int | None, Meta(description="One partition; otherwise all.")] = None
    dry_run: Annotated[
        bool, Meta(description="Whether only to report what would be done, and change nothing.")
    ] = False


class SeekResult(msgspec.Struct, frozen=True):
    """What a seek changes, or in a preview would change, in one partition."""

    topic: str
    partition: int
    was: int | None
    """The committed offset before; None if there was none."""
    cursor: int
    tail: int
    lag: int


class GroupOperations(DoorOperations):
    """Operations on groups."""

    @operation("groups/list", "GET groups")
    def every(self, peer: Peer, _: NoArguments) -> list[GroupState]:
        """List groups with their members and lag."""
        return list(self._door(peer).groups())

    @operation("groups/show", "GET groups/{group}")
    def show(self, peer: Peer, asked: NameGroup) -> GroupState:
        """Show the members and the lag of a group."""
        return self._door(peer).group(asked.group)

    @operation("groups/seek", "POST groups/{group}/seek")
    def seek(self, peer: Peer, asked: SeekGroup) -> list[SeekResult]:
        """Set the committed offsets of a group without members, or preview that."""
        door = self._door(peer)
        check_group(asked.group)
        _check_not_live(door, asked.group)
        numbers = numbers_of(door, asked.topic, asked.partition)
        places = [(asked.topic, each) for each in numbers]
        offsets = {place: offset_at(door, *place, asked.to) for place in places}
        committed = {place: door.cursor(asked.group, *place) for place in places}
        if not asked.dry_run:
            door.seek(asked.group, offsets).wait()
        return [
            SeekResult(*place, None if was is None else was.offset, offsets[place], tail, lag)
            for place, was in committed.items()
            for tail in (door.bounds(*place).tail,)
            for lag in (max(0, tail - offsets[place]),)
        ]

    @operation("groups/delete", "DELETE groups/{group}")
    def delete(self, peer: Peer, asked: NameGroup) -> None:
        """Delete the committed offsets of a group without members."""
        self._door(peer).delete_group(asked.group).wait()


def _check_not_live(door: Door, name: str) -> None:
    """Raise the error of a seek on a group with members; a preview calls this, too."""
    try:
        members = len(door.group(name).members)
    except UnknownGroup:
        return
    if members:
        raise GroupIsLive(name, f"{members} members", "moved")
