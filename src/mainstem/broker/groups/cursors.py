"""Cursors, the committed offsets of every group: replayed from ``__mainstem_cursors``.

All kinds of groups share these cursors. Each kind's coordinator keeps the members and decides who
may commit.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from mainstem.core.errors import InvalidSetting, UnknownGroup
from mainstem.core.names import check_group
from mainstem.log.port import PartitionId

Outer = TypeVar("Outer")
Inner = TypeVar("Inner")

MAX_METADATA_BYTES = 4096
MAX_CURSORS = 1_000_000
"""Maximum number of cursors of all groups together."""


class CursorKey(msgspec.Struct, frozen=True, array_like=True, tag="cursor"):
    """The record's key: group and partition."""

    group: str
    topic_id: str
    partition: int


class Cursor(msgspec.Struct, frozen=True, tag_field="kind", tag="cursor/1", omit_defaults=True):
    """The next offset a group will read in a partition, with the consumer's metadata."""

    offset: int
    committed_ms: int
    metadata: str = ""
    epoch: int = -1
    """The leader epoch of the last event read, -1 if the consumer did not say."""

    @property
    def is_unset(self) -> bool:
        """Whether the offset is negative: Kafka clients commit -1 or -2 to drop a position.

        Such an offset is stored and returned, but otherwise treated as if nothing was committed.
        """
        return self.offset < 0


class CursorChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: CursorKey
    value: Cursor | None


class Cursors:
    """The committed offsets of all groups, rebuilt by replaying the topic."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[PartitionId, Cursor]] = {}
        self._readers: dict[PartitionId, dict[str, Cursor]] = {}
        self._count = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cursors):
            return NotImplemented
        return (self._groups, self._readers, self._count) == (
            other._groups,
            other._readers,
            other._count,
        )

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self._groups)

    def groups(self) -> list[str]:
        """Return the names of all groups that have cursors."""
        return sorted(self._groups)

    def of(self, group: str) -> Mapping[PartitionId, Cursor]:
        """Return all cursors of a group by partition, also unset ones."""
        return self._groups.get(group, {})

    def at(self, group: str, partition: PartitionId) -> Cursor | None:
        """Return a group's cursor in a partition; None if there is none or it is unset."""
        cursor = self._groups.get(group, {}).get(partition)
        return None if cursor is None or cursor.is_unset else cursor

    def partitions(self) -> list[PartitionId]:
        """Return every partition that has a cursor."""
        return list(self._readers)

    def readers(self, partition: PartitionId) -> Mapping[str, Cursor]:
        """Return the cursors of all groups in a partition, also unset ones."""
        return self._readers.get(partition, {})

    def commit(
        self, group: str, cursors: Mapping[PartitionId, Cursor], *, may_unset: bool = False
    ) -> list[CursorChange]:
        """Return the changes that set cursors; the caller has checked that the group allows it.

        ``may_unset``: accept negative offsets, which unset a cursor (``Cursor.is_unset``).
        """
        check_group(group)
        for partition, cursor in cursors.items():
            if cursor.is_unset and not may_unset:
                raise InvalidSetting(f"a cursor cannot be at {cursor.offset}; offsets begin at 0")
            size = _size(cursor.metadata)
            if size > MAX_METADATA_BYTES:
                raise InvalidSetting(
                    f"{size} bytes of metadata for a cursor of group {group!r} in partition "
                    f"{partition.number}; at most {MAX_METADATA_BYTES} are kept"
                )
        if self._count + len(cursors) > MAX_CURSORS:
            self._check_room(group, cursors)
        return [CursorChange(_key(group, at), cursor) for at, cursor in cursors.items()]

    def remove(
        self, group: str, partitions: Iterable[PartitionId] | None = None
    ) -> list[CursorChange]:
        """Return the changes that delete a group's cursors in some partitions, or in all."""
        known = self._groups.get(group)
        if known is None:
            raise UnknownGroup(group)
        chosen = known if partitions is None else [at for at in partitions if at in known]
        return [CursorChange(_key(group, at), None) for at in chosen]

    def forget(self, partitions: Iterable[PartitionId]) -> list[CursorChange]:
        """Return the changes that delete all groups' cursors in deleted partitions."""
        return [
            CursorChange(_key(group, at), None)
            for at in partitions
            for group in self._readers.get(at, ())
        ]

    def expire(self, before_ms: int, groups: Iterable[str]) -> list[CursorChange]:
        """Return the changes that delete the groups' cursors committed before ``before_ms``."""
        return [
            CursorChange(_key(group, at), None)
            for group in groups
            for at, cursor in self._groups.get(group, {}).items()
            if cursor.committed_ms < before_ms
        ]

    def apply(self, change: CursorChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        group, topic_id, number = change.key.group, change.key.topic_id, change.key.partition
        partition = PartitionId(topic_id, number)
        if change.value is not None:
            cursors = self._groups.setdefault(group, {})
            self._count += partition not in cursors
            cursors[partition] = change.value
            self._readers.setdefault(partition, {})[group] = change.value
        elif partition in self._groups.get(group, ()):
            self._count -= 1
            _take_out(self._groups, group, partition)
            _take_out(self._readers, partition, group)

    def _check_room(self, group: str, cursors: Mapping[PartitionId, Cursor]) -> None:
        known = self._groups.get(group, {})
        if self._count + sum(at not in known for at in cursors) > MAX_CURSORS:
            raise InvalidSetting(
                f"there are {MAX_CURSORS} cursors already; delete groups that are not used"
            )


def _key(group: str, partition: PartitionId) -> CursorKey:
    return CursorKey(group, partition.topic_id, partition.number)


def _size(metadata: str) -> int:
    try:
        return len(metadata.encode())
    except UnicodeEncodeError:
        raise InvalidSetting(
            f"metadata {metadata!r:.100} of a cursor cannot be written as UTF-8"
        ) from None


def _take_out(table: dict[Outer, dict[Inner, Cursor]], outer: Outer, inner: Inner) -> None:
    entries = table[outer]
    del entries[inner]
    if not entries:
        del table[outer]
