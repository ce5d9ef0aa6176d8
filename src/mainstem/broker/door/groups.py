"""Groups: consumers that own partitions, and how far each group has read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.lag import GroupState, Lag
from mainstem.broker.groups.local.coordinator import AssignedPartition, Assignment
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.log.port import Durable

__all__ = [
    "AssignedPartition",
    "Assignment",
    "Cursor",
    "GroupState",
    "Groups",
    "Lag",
    "Member",
    "TopicPartition",
]


class Member(Protocol):
    """One member of a group, as the consuming program sees it; thread-safe.

    Whenever ``changed`` (see ``Groups.join``) is called, the program reads ``assignment``. It
    starts to read new partitions at the group's cursor. It stops reading those in ``revoked``,
    commits its offsets in them, and releases them.
    """

    @property
    def group(self) -> str:
        """The group's name."""

    @property
    def id(self) -> str:
        """The member's id."""

    def assignment(self) -> Assignment:
        """Return the partitions to read and to give up; raises Fenced if the member was removed."""

    def commit(self, offsets: Mapping[AssignedPartition, int], metadata: str = "") -> Durable:
        """Commit offsets in owned partitions; raises Fenced and commits none if one was lost."""

    def release(self, partitions: Iterable[AssignedPartition]) -> None:
        """Give up partitions that the program has stopped reading and has committed."""

    def leave(self) -> None:
        """Leave the group; its partitions go to other members at once, so commit before."""


class Groups(Protocol):
    """Groups and their cursors (committed offsets); a commit is final once it is durable."""

    def join(self, group: str, topics: Sequence[str], changed: Callback) -> Member:
        """Join a group to read topics, given by name or pattern.

        ``changed`` is called when the assignment has changed: from any thread, without a lock; it
        must not block.
        """

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> Durable:
        """Commit offsets for a group without members; members use ``Member.commit``."""

    def seek(self, group: str, offsets: Mapping[TopicPartition, int]) -> Durable:
        """Set a group's offsets, within the logs' bounds; refused while the group has members."""

    def cursor(self, group: str, topic: str, partition: int) -> Cursor | None:
        """Return a group's committed offset in a partition, None if it has not committed there."""

    def committed(self, group: str) -> dict[TopicPartition, Cursor]:
        """Return a group's committed offsets in all partitions."""

    def lag(self, group: str, topic: str | None = None) -> tuple[Lag, ...]:
        """Return the lag in every partition that the group has committed to or is assigned.

        With a topic: in all partitions of that topic. Raises UnknownGroup.
        """

    def group(self, name: str) -> GroupState:
        """Return a group's members, partitions and lag; raises UnknownGroup."""

    def groups(self) -> list[GroupState]:
        """Return every group that has members or committed offsets, sorted by name."""

    def group_names(self) -> list[str]:
        """Return the names of the groups that have members or committed offsets."""

    def delete_group(self, name: str) -> Durable:
        """Delete a group's committed offsets; refused while it has members."""
