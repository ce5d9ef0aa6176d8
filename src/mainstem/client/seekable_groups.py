"""Sets committed offsets of groups, of a log in this process or on a server."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainstem.broker.door import TopicPartition
from mainstem.client.info import Lag
from mainstem.client.start_positions import Start, check_start
from mainstem.core.errors import GroupIsLive, UnknownGroup
from mainstem.core.names import check_group


class SeekableGroups(ABC):
    """Base class of ``Groups`` implementations, with ``seek``."""

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
        """Set the committed offsets of a group without members; return the resulting lag."""
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
        """Raise the error of ``seek`` for a group with members; a dry run calls this, too."""
        try:
            members = self._members(name)
        except UnknownGroup:
            return
        if members:
            raise GroupIsLive(name, f"{members} members", "moved")

    @abstractmethod
    def _members(self, name: str) -> int:
        """Return the number of members of a group; raises UnknownGroup."""

    @abstractmethod
    def _partitions(self, topic: str) -> int: ...

    @abstractmethod
    def _offsets(
        self, places: Sequence[TopicPartition], to: Start
    ) -> dict[TopicPartition, int]: ...

    @abstractmethod
    def _move(self, name: str, offsets: Mapping[TopicPartition, int]) -> None: ...

    @abstractmethod
    def _tails(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the tails of these partitions; those that do not exist are left out."""
