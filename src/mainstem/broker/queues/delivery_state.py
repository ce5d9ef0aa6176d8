"""A queue's state in one partition (its window): events in flight, to be redelivered, not yet read.

How this works: every unsettled event below ``next`` has an entry. An entry is in one of these
states, and only ``out`` (in flight) has an owner:

    fresh ──▶ out ── nack, release, expire ──▶ ready ──▶ out …        ack: the entry is gone
                                    └─ delay ─▶ later ──▶ ready
                                    └─ too often ▶ spent ──▶ dead letter, the entry is gone
    fresh, but its key has an earlier entry ──▶ behind ──▶ ready when it is the first of its key

Entries are added in offset order and never added again, so the first one of the dict is always the
lowest. This module neither reads nor writes the log: callers decide, append ``record``, and then
call ``apply``.
"""

import heapq
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from mainstem.broker.deadlines import Alarm, Deadlines
from mainstem.broker.queues.records import WindowChange, WindowSet, runs

_LONG_KEY = 64
_FEW = 32
"""With at most this many entries the whole state is stored, as the changes alone would hardly be
smaller.
"""
_MANY_CHANGES = 10_000
MAX_DELAYED = 20_000
"""Up to this many delayed events do not count towards ``max_unsettled``; limited, as the whole
state is sometimes stored.
"""


class Redelivery(NamedTuple):
    """An event returned to the queue: its delivery count, and when it is due for redelivery."""

    deliveries: int
    due_ms: int = 0


class Entry:
    """The state of one unsettled event."""

    __slots__ = (
        "deliveries",
        "due_ms",
        "key",
        "lease",
        "owner",
        "reason",
        "redelivered",
        "was_out",
    )

    def __init__(self, deliveries: int = 0, due_ms: int = 0, key: bytes | None = None) -> None:
        self.deliveries = deliveries
        self.due_ms = due_ms
        self.owner: str | None = None
        self.lease = 0
        self.key = key
        self.reason = ""
        """Why the last delivery failed, for the dead letter."""
        self.was_out = deliveries > 0
        """Whether the event was delivered before, including released deliveries, which do not
        count.
        """
        self.redelivered = False
        """Whether the event had been delivered before its current delivery."""


class Window:
    """The unsettled events of a queue in one partition; used under the queues' lock."""

    def __init__(
        self,
        at: WindowSet,
        max_deliveries: int | None,
        *,
        keyed: bool,
        alarm: Alarm | None = None,
    ) -> None:
        self.next = at.next
        """Offset of the first event that has never had an entry."""
        self.missed = at.missed
        self.max_deliveries = max_deliveries
        self.entries: dict[int, Entry] = {}
        self.out = 0
        """Number of events in flight."""
        # Not Deadlines[int](…): that subscript takes longer than the rest of this constructor.
        self.locks: Deadlines[int] = Deadlines(alarm)
        """When the lock of each event in flight expires, on the monotonic clock."""
        self.owners: dict[str, int] = {}
        """Number of events in flight per owner."""
        self.delays: Deadlines[int] = Deadlines(alarm)
        """When each delayed event is due, in wall-clock time, as it is stored."""
        self.spent: set[int] = set()
        """Events delivered too often, which must become dead letters."""
        self.lines: dict[bytes, list[int]] | None = {} if keyed and not at.left else None
        """Entries of each key as a heap of offsets; None if the order ignores keys, or before
        ``know_keys``.

        The lowest offset of a heap is always an entry; the others may be settled already.
        """
        self.keyed = keyed
        self.given = 0
        """Number of deliveries since the queue was opened in this process."""
        self.unsure = 0
        """Events below this offset count as redelivered, as a crashed process may have delivered
        them.
        """
        self.head_ms: int | None = None
        """When the oldest waiting event expires, in wall-clock time; None if never."""
        self.seen: int | None = None
        """The tail at the last read that found no event; None if there may be more to read."""
        self.awaited = range(0)
        """Offsets of events that were appended while a consumer waited; see ``is_awaited``."""
        self._ready: list[int] = []
        self._changed: set[int] | None = set()
        """Offsets changed since the state was last written; None if there are too many to list."""
        for left in at.left:
            for offset in range(left.first, left.last + 1):
                entry = self.entries[offset] = Entry(left.deliveries, left.due_ms)
                entry.was_out = True
                self._wait(offset, entry)

    @property
    def start(self) -> int:
        """First unsettled offset: everything below is settled."""
        return next(iter(self.entries), self.next)

    @property
    def may_have_ready(self) -> bool:
        """Whether some event may be ready for redelivery."""
        return bool(self._ready)

    @property
    def lacks_keys(self) -> bool:
        """Whether the entries' keys are unknown, so that ``know_keys`` must be called first."""
        return self.keyed and self.lines is None

    def is_full(self, max_unsettled: int) -> bool:
        """Whether no further events may be read; delayed ones count only if there are very many."""
        count = len(self.entries)
        return (
            count >= max_unsettled and count - min(len(self.delays), MAX_DELAYED) >= max_unsettled
        )

    def record(self, changes: Mapping[int, Redelivery | None] = {}, missed: int = 0) -> WindowSet:
        """Return the record of the whole state after some changes, given by offset.

        A change is None if it settles the event.

        ``missed``: how many of the settled events the log had deleted before they were delivered.
        """
        after = ((at, changes.get(at, entry)) for at, entry in self.entries.items())
        left = runs((at, it.deliveries, it.due_ms) for at, it in after if it is not None)
        return WindowSet(self.next, left, self.missed + missed)

    def change(
        self, changes: Mapping[int, Redelivery | None], missed: int = 0
    ) -> WindowChange | None:
        """Return the record of changes by offset.

        None if the whole state should be stored instead.
        """
        if self._changed is None or len(self.entries) - len(changes) <= _FEW:
            return None
        left: list[tuple[int, int, int]] = []
        gone: list[tuple[int, int, int]] = []
        for offset in sorted(self._changed.union(changes)):
            now = changes[offset] if offset in changes else self.entries.get(offset)
            if now is None:
                gone.append((offset, 0, 0))
            else:
                left.append((offset, now.deliveries, now.due_ms))
        settled = tuple((each.first, each.last) for each in runs(gone))
        return WindowChange(self.next, runs(left), settled, self.missed + missed)

    def written(self) -> None:
        """Clear the list of changed offsets: the whole state has been stored."""
        self._changed = set()

    def apply(
        self, changes: Mapping[int, Redelivery | None], reasons: Mapping[int, str] = {}
    ) -> None:
        """Apply changes by offset.

        A ``Redelivery`` returns the event to the queue, None settles it.
        """
        for offset, change in changes.items():
            entry = self.entries[offset]
            self._note(offset)
            self._take_back(offset, entry)
            if change is None:
                self._settle(offset, entry)
            else:
                entry.deliveries, entry.due_ms = change
                entry.reason = reasons.get(offset, "")
                self._wait(offset, entry)

    def add(self, offset: int, key: bytes | None) -> bool:
        """Add an event that was read for the first time; return whether it may be delivered now."""
        entry = self.entries[offset] = Entry(key=_short(key))
        self._note(offset)
        self.next = offset + 1
        return self._line_up(offset, entry)

    def give(self, offset: int, owner: str, lease: int, until_ms: int | None) -> Entry:
        """Put an event in flight with an owner until its lock expires; None: without a lock."""
        entry = self.entries[offset]
        self._note(offset)
        entry.owner, entry.lease = owner, lease
        entry.deliveries += 1
        entry.redelivered = entry.was_out or offset < self.unsure
        entry.was_out = True
        self.given += 1
        self.owners[owner] = self.owners.get(owner, 0) + 1
        self.out += 1
        if until_ms is not None:
            self.locks.set(offset, until_ms)
        return entry

    def keep(self, offset: int, until_ms: int) -> None:
        """Extend the lock of an event in flight."""
        if offset in self.entries and self.entries[offset].owner is not None:
            self.locks.set(offset, until_ms)

    def ready(self) -> int | None:
        """Remove and return the lowest offset ready for redelivery; the caller delivers it now."""
        while self._ready:
            offset = heapq.heappop(self._ready)
            # Duplicates of this offset must go too, else it would be popped again before it is
            # delivered.
            while self._ready and self._ready[0] == offset:
                heapq.heappop(self._ready)
            entry = self.entries.get(offset)
            # The heap may hold stale offsets: events that were settled or must wait again.
            if entry is not None and self._may_go(offset, entry):
                return offset
        return None

    def put_back(self, offset: int) -> None:
        """Undo ``ready`` for an offset that was not delivered."""
        heapq.heappush(self._ready, offset)

    def is_awaited(self, offset: int) -> bool:
        """Tell whether an undelivered event was appended while a consumer waited for one."""
        entry = self.entries.get(offset)
        return offset in self.awaited and (entry is None or not entry.was_out)

    def due(self, now_ms: int) -> bool:
        """Make the delayed events ready whose delay has ended; return whether there were any."""
        is_any = False
        while (offset := self.delays.take(now_ms)) is not None:
            self.entries[offset].due_ms = 0
            self._note(offset)
            self._wait(offset, self.entries[offset])
            is_any = True
        return is_any

    def expired(self, monotonic_ms: int) -> dict[int, Redelivery]:
        """Return the events whose lock has expired, as changes to apply."""
        found: dict[int, Redelivery] = {}
        while (offset := self.locks.take(monotonic_ms)) is not None:
            found[offset] = Redelivery(self.entries[offset].deliveries)
        return found

    def lost(self, start: int) -> None:
        """Settle the waiting events that the log has deleted, below ``start``, as missed.

        Events in flight stay in flight.
        """
        gone = [at for at, entry in self.entries.items() if at < start and entry.owner is None]
        self.missed += len(gone)
        self.apply(dict.fromkeys(gone))
        if self.next < start:
            self.missed += start - self.next
            self.next = start

    def cut(self, end: int) -> None:
        """Drop all entries from ``end`` on, because the log was truncated there."""
        self.apply(dict.fromkeys([at for at in self.entries if at >= end]))
        self.next = min(self.next, end)
        self.seen = None

    def know_keys(self, keys: Mapping[int, bytes | None]) -> None:
        """Set the keys of all entries (for ``order=key``); drop entries whose event is gone."""
        self.apply(dict.fromkeys([at for at in self.entries if at not in keys]))
        # After ``apply``, so that deleted events are not added to ``lines``.
        self.lines = {}
        for offset, entry in self.entries.items():
            entry.key = _short(keys[offset])
            self._line_up(offset, entry)

    def alter(self, max_deliveries: int | None, *, keyed: bool) -> None:
        """Apply changed queue settings."""
        self.max_deliveries = max_deliveries
        self.keyed, self.lines = keyed, None if self.entries or not keyed else {}
        self.spent.clear()
        self._ready.clear()
        for offset, entry in self.entries.items():
            if entry.owner is None:
                self._wait(offset, entry)

    def held_by(self, owner: str) -> Iterator[int]:
        """Return the offsets in flight with an owner."""
        if owner not in self.owners:
            return iter(())
        return (offset for offset, entry in self.entries.items() if entry.owner == owner)

    def waiting(self) -> list[int]:
        """Return the offsets that are unsettled and not in flight."""
        return [offset for offset, entry in self.entries.items() if entry.owner is None]

    def _note(self, offset: int) -> None:
        if self._changed is not None:
            self._changed.add(offset)
            if len(self._changed) > _MANY_CHANGES:
                self._changed = None

    def _take_back(self, offset: int, entry: Entry) -> None:
        if entry.owner is not None:
            self.out -= 1
            self.locks.clear(offset)
            self.owners[entry.owner] -= 1
            if not self.owners[entry.owner]:
                del self.owners[entry.owner]
            entry.owner = None

    def _may_go(self, offset: int, entry: Entry) -> bool:
        if entry.owner is not None or entry.due_ms or offset in self.spent:
            return False
        return entry.key is None or self.lines is None or self.lines[entry.key][0] == offset

    def _wait(self, offset: int, entry: Entry) -> None:
        """Add an entry that is not in flight to the spent, delayed or ready ones."""
        if self.max_deliveries is not None and entry.deliveries >= self.max_deliveries:
            self.spent.add(offset)
        elif entry.due_ms:
            self.delays.set(offset, entry.due_ms)
        else:
            heapq.heappush(self._ready, offset)

    def _line_up(self, offset: int, entry: Entry) -> bool:
        if entry.key is None or self.lines is None:
            return True
        line = self.lines.setdefault(entry.key, [])
        heapq.heappush(line, offset)
        return line[0] == offset

    def _settle(self, offset: int, entry: Entry) -> None:
        del self.entries[offset]
        self.delays.clear(offset)
        self.spent.discard(offset)
        if entry.key is None or self.lines is None:
            return
        line = self.lines[entry.key]
        if line[0] != offset:
            return
        while line and not self._is_of(line[0], entry.key):
            heapq.heappop(line)
        if line:
            # The key's next event may be delivered now, unless it is delayed or in flight.
            heapq.heappush(self._ready, line[0])
        else:
            del self.lines[entry.key]

    def _is_of(self, offset: int, key: bytes) -> bool:
        """Tell whether the entry at an offset has this key.

        After a truncation, another event with another key may have the offset.
        """
        entry = self.entries.get(offset)
        return entry is not None and entry.key == key


def _short(key: bytes | None) -> bytes | None:
    """Return a key, or its hash if long: long keys would make this state as large as the events."""
    if key is None or len(key) <= _LONG_KEY:
        return key
    return blake2b(key, digest_size=_LONG_KEY).digest()
