"""The options of ``Stem.subscribe``."""

from typing import Literal

import msgspec

from mainstem.client.start_positions import Start, check_start
from mainstem.core.errors import InvalidSetting


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
