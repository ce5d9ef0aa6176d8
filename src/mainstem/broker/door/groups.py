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
    """A place in a group: what to read, how far it was read, and giving it up.

    Its program looks at ``assignment`` whenever it is told that it changed. It begins shares it
    has not seen before at the group's cursor, and those under ``revoked`` it finishes, commits and
    releases. Safe to use from several threads.
    """

    @property
    def group(self) -> str:
        """The group's name."""

    @property
    def id(self) -> str:
        """Its own name in the group."""

    def assignment(self) -> Assignment:
        """Return what to read and what to give up; raises Fenced if it is no member any more."""

    def commit(self, offsets: Mapping[AssignedPartition, int], metadata: str = "") -> Durable:
        """Move the group's cursors in shares it has; Fenced, and nothing moved, if one is gone."""

    def release(self, shares: Iterable[AssignedPartition]) -> None:
        """Give up shares that it has stopped reading and has committed."""

    def leave(self) -> None:
        """Leave the group; what it owned goes to others at once, so commit before."""


class Groups(Protocol):
    """Groups and their cursors; a cursor has moved for good once that is durable."""

    def join(self, group: str, topics: Sequence[str], changed: Callback) -> Member:
        """Join a group to read topics, by name or pattern; ``changed`` tells of new assignments.

        It is called from any thread, without a lock, and must not block.
        """

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> Durable:
        """Move cursors of a group that has no members; members commit through their place."""

    def seek(self, group: str, offsets: Mapping[TopicPartition, int]) -> Durable:
        """Move cursors anywhere within their partitions; refused while the group is live."""

    def cursor(self, group: str, topic: str, partition: int) -> Cursor | None:
        """Return a group's cursor in a partition, None if it has not committed there."""

    def committed(self, group: str) -> dict[TopicPartition, Cursor]:
        """Return all cursors of a group."""

    def lag(self, group: str, topic: str | None = None) -> tuple[Lag, ...]:
        """Return how far a group is behind wherever it has a cursor or reads; raises UnknownGroup.

        With a topic: in all its partitions.
        """

    def group(self, name: str) -> GroupState:
        """Return one group; raises UnknownGroup."""

    def groups(self) -> list[GroupState]:
        """Return every group that is live or has cursors, by name."""

    def group_names(self) -> list[str]:
        """Return the names of the groups that are live or have cursors."""

    def delete_group(self, name: str) -> Durable:
        """Forget a group's cursors; refused while it is live."""
