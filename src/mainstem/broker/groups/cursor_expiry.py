"""Expiry of cursors of groups without members (Kafka's offsets.retention.minutes).

How this works: a cursor (a group's committed offset in a partition) expires when, for the retention
time, it was not committed again and its group had no members. The time when a group last had
members is not stored: each check notes in memory which groups have had members since the previous
check. After a restart, groups with members are known from the journals. So a cursor may expire one
check too late, but never too early. Each tick checks a bounded number of cursors, so that it does
not hold the lock for long.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from mainstem.broker.callbacks import make
from mainstem.broker.groups.cursors import CursorChange
from mainstem.broker.state import REFUSALS, State
from mainstem.log.port import PartitionId

CHECK_INTERVAL_MS = 600_000
"""Time between two checks, as Kafka's offsets.retention.check.interval.ms."""
_CURSORS_AT_ONCE = 10_000


class CursorExpiry:
    """Deletes the committed offsets of unused groups; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        retention_ms: int,
        is_pending: Callable[[str, PartitionId], bool],
    ) -> None:
        """``is_pending``: tells whether an ongoing transaction will commit a group's offset."""
        self._state, self._retention_ms = state, retention_ms
        self._now_ms, self._monotonic_ms = state.clocks
        self._is_pending = is_pending
        self._last_live_ms: dict[str, int] = {}
        self._unchecked: list[str] = []
        """Groups that the current check has not reached yet."""
        self._next_check_ms = self._monotonic_ms() + self._interval_ms

    @property
    def _interval_ms(self) -> int:
        return min(CHECK_INTERVAL_MS, self._retention_ms)

    def tick(self) -> None:
        """Check some of the cursors, if a check is due."""
        if self._monotonic_ms() < self._next_check_ms:
            return
        now_ms = self._now_ms()
        with self._state.lock:
            if not self._unchecked:
                self._begin_check(now_ms)
            before_ms = now_ms - self._retention_ms
            expired = self._state.cursors.expire(before_ms, self._next_groups(before_ms))
            changes = [each for each in expired if not self._is_pending(*_place(each))]
            calls = self._forget(changes, now_ms)
            self._next_check_ms = self._monotonic_ms()
            if not self._unchecked:
                self._next_check_ms += self._interval_ms
        make(calls)

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is next due, on the monotonic clock; None without cursors."""
        with self._state.lock:
            return self._next_check_ms if self._state.cursors else None

    def _begin_check(self, now_ms: int) -> None:
        groups = self._state.groups
        seen = dict.fromkeys(groups.live() | groups.take_emptied(), now_ms)
        last_live_ms = self._last_live_ms | seen
        self._unchecked = self._state.cursors.groups()
        self._last_live_ms = {
            name: last_live_ms[name] for name in self._unchecked if name in last_live_ms
        }

    def _next_groups(self, before_ms: int) -> list[str]:
        """Return the groups to check in this tick, with a bounded number of cursors in total."""
        groups: list[str] = []
        count = 0
        while self._unchecked and count < _CURSORS_AT_ONCE:
            name = self._unchecked.pop()
            count += len(self._state.cursors.of(name))
            if self._last_live_ms.get(name, 0) < before_ms and not self._state.groups.is_live(name):
                groups.append(name)
        return groups

    def _forget(self, changes: list[CursorChange], now_ms: int) -> Iterable[Callable[[], None]]:
        # If the log refuses the append now, the next check tries again.
        with suppress(*REFUSALS):
            self._state.change_cursors(changes, now_ms)
            return self._state.make_room([_place(each)[1] for each in changes])
        return ()


def _place(change: CursorChange) -> tuple[str, PartitionId]:
    key = change.key
    return key.group, PartitionId(key.topic_id, key.partition)
