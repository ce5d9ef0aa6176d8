"""Moving the cursors of groups, wherever they are kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainstem.client.info import Lag
from mainstem.client.starts import Start, check_start
from mainstem.core.errors import GroupIsLive, UnknownGroup
from mainstem.core.names import check_group

Place = tuple[str, int]
"""A partition: topic and number."""


class SeekableGroups(ABC):
    """Groups whose cursors can be moved."""

    def __init__(self, check_open: Callable[[], None]) -> None:
        self._check_open = check_open

    def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Move the cursors of a group that has no live members; return where they are then."""
        self._check_open()
        check_start(to)
        check_group(name)
        self._check_not_live(name)
        numbers = range(self._partitions(topic)) if partition is None else (partition,)
        offsets = self._offsets([(topic, each) for each in numbers], to)
        if not dry_run:
            self._move(name, offsets)
        tails = self._tails(offsets)
        return tuple(
            Lag(name, topic, place[1], offset, tails[place], max(0, tails[place] - offset))
            for place, offset in offsets.items()
            if place in tails
        )

    def _check_not_live(self, name: str) -> None:
        """Refuse what moving would refuse, so that a dry run tells the same."""
        try:
            members = self._members(name)
        except UnknownGroup:
            return
        if members:
            raise GroupIsLive(name, f"{members} members", "moved")

    @abstractmethod
    def _members(self, name: str) -> int:
        """Return how many live members a group has; raises UnknownGroup."""

    @abstractmethod
    def _partitions(self, topic: str) -> int: ...

    @abstractmethod
    def _offsets(self, places: Sequence[Place], to: Start) -> dict[Place, int]: ...

    @abstractmethod
    def _move(self, name: str, offsets: Mapping[Place, int]) -> None: ...

    @abstractmethod
    def _tails(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the tails of those partitions that are still there."""
