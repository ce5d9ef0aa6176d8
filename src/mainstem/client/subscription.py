"""The options of ``Stem.subscribe``."""

from collections.abc import Iterable
from typing import Literal, Self, TypedDict

import msgspec

from mainstem.client.start_positions import Start, check_start
from mainstem.core.errors import InvalidSetting


class SubscribeArguments(TypedDict, total=False):
    """The options of ``Stem.subscribe``."""

    group: str | None
    """The consumer group to join; without one, all partitions are read."""
    start: Start
    """Where to start; ``earliest`` by default. A group starts there if it has no cursor yet."""
    follow: bool
    """Whether to wait for more at the end; yes by default."""
    commit: Literal["auto", "manual"]
    partitions: Iterable[int] | None


class SubscriptionOptions(msgspec.Struct, frozen=True):
    """The options of ``Stem.subscribe``."""

    topics: tuple[str, ...]
    group: str | None = None
    start: Start = "earliest"
    follow: bool = True
    commit: Literal["auto", "manual"] = "auto"
    partitions: tuple[int, ...] | None = None
    fetch_bytes: int = 1024 * 1024
    commit_s: float = 1.0

    @classmethod
    def of(
        cls,
        topics: tuple[str, ...],
        *,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> Self:
        """Return the options that ``SubscribeArguments`` give; the others have their defaults."""
        chosen = None if partitions is None else tuple(partitions)
        return cls(topics, group, start, follow, commit, chosen)

    def check(self) -> None:
        """Raise InvalidSetting for invalid options."""
        check_start(self.start)
        if not self.topics:
            raise InvalidSetting("subscribe to at least one topic, by name or by pattern")
        if self.commit not in ("auto", "manual"):
            raise InvalidSetting(f"commit is 'auto' or 'manual', not {self.commit!r}")
        if self.group is not None and self.partitions is not None:
            raise InvalidSetting(
                "a group assigns the partitions itself: give a group or partitions, not both"
            )
