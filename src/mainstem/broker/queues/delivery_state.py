"""A queue's window on one partition: what is out, what comes again, what was never read.

How this works: every event below ``next`` that is not settled has an entry. An entry is in one of
these states, and only ``out`` has an owner:

    fresh ──▶ out ── nack, release, expire ──▶ ready ──▶ out …        ack: the entry is gone
                                    └─ delay ─▶ later ──▶ ready
                                    └─ too often ▶ spent ──▶ dead letter, the entry is gone
    fresh, but its key has an earlier entry ──▶ behind ──▶ ready when it is the first of its key

Entries are made in the order of their offsets and never made again, so the first one of the dict
is always the lowest. Nothing here reads the log or writes it: whoever calls has decided, has
appended ``record``, and then calls ``apply``.
"""

import heapq
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from mainstem.broker.deadlines import Alarm, Deadlines
from mainstem.broker.queues.records import WindowChange, WindowSet, runs

_LONG_KEY = 64
_FEW = 32
"""A window of so few entries is written whole; what has changed would not be much less."""
_MANY_CHANGES = 10_000


class Back(NamedTuple):
    """An event that is given back: how often it was delivered, and when it is due again."""

    deliveries: int
    due_ms: int = 0


class Entry:
    """An event that is not settled."""

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
        """Why it failed last."""
        self.was_out = deliveries > 0
        """Whether it was handed out before, also if that did not count as a delivery."""
        self.redelivered = False
        """Whether it was handed out before the delivery that is under way."""


class Window:
    """What a queue knows of one partition; used under the queues' lock."""

    def __init__(
        self,
        at: WindowSet,
        max_deliveries: int | None,
        *,
        keyed: bool,
        alarm: Alarm | None = None,
    ) -> None:
        self.next = at.next
        """Where fresh events begin."""
        self.missed = at.missed
        self.max_deliveries = max_deliveries
        self.entries: dict[int, Entry] = {}
        self.out = 0
        """How many events are out."""
        # Not Deadlines[int](…), which takes longer than all the rest here.
        self.locks: Deadlines[int] = Deadlines(alarm)
        """When what is out comes back; on the monotonic clock."""
        self.owners: dict[str, int] = {}
        """How many events are out with each owner."""
        self.delays: Deadlines[int] = Deadlines(alarm)
        """When what waits is due; on the time of day, as it is written down."""
        self.spent: set[int] = set()
        """Delivered too often, to become dead letters."""
        self.lines: dict[bytes, list[int]] | None = {} if keyed and not at.left else None
        """The entries of each key, a heap; None if keys do not matter or are not known.

        The lowest one is always an entry; behind it there may be some that are settled already.
        """
        self.keyed = keyed
        self.given = 0
        """How many deliveries there were since this was opened."""
        self.unsure = 0
        """Below this offset an event may have been out when the process before this one ended."""
        self.head_ms: int | None = None
        """When the oldest event that waits will expire, on the time of day; None if never."""
        self.seen: int | None = None
        """The tail when there was nothing more to read; None if there was."""
        self._ready: list[int] = []
        self._changed: set[int] | None = set()
        """Offsets that are not as they were last written; None if that is not known."""
        for left in at.left:
            for offset in range(left.first, left.last + 1):
                entry = self.entries[offset] = Entry(left.deliveries, left.due_ms)
                entry.was_out = True
                self._wait(offset, entry)

    @property
    def start(self) -> int:
        """Everything below is settled."""
        return next(iter(self.entries), self.next)

    @property
    def may_have_ready(self) -> bool:
        """Whether it is worth asking for what is to be delivered again."""
        return bool(self._ready)

    @property
    def lacks_keys(self) -> bool:
        """Whether the keys of entries must be told (``know_keys``) before anything is taken."""
        return self.keyed and self.lines is None

    def record(self, changes: Mapping[int, Back | None] = {}, missed: int = 0) -> WindowSet:
        """Return the whole window as it will be after changes; None is settled.

        ``missed``: how many of them were deleted before they could be worked on.
        """
        after = ((at, changes.get(at, entry)) for at, entry in self.entries.items())
        left = runs((at, it.deliveries, it.due_ms) for at, it in after if it is not None)
        return WindowSet(self.next, left, self.missed + missed)

    def change(self, changes: Mapping[int, Back | None], missed: int = 0) -> WindowChange | None:
        """Return what is to be written of changes; None if the whole window had better be."""
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
        """Take note that everything is written down as it is now."""
        self._changed = set()

    def apply(self, changes: Mapping[int, Back | None], reasons: Mapping[int, str] = {}) -> None:
        """Make changes true: events are settled, or given back."""
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
        """Take in a fresh event; return whether it may be given out now."""
        entry = self.entries[offset] = Entry(key=_short(key))
        self._note(offset)
        self.next = offset + 1
        return self._line_up(offset, entry)

    def give(self, offset: int, owner: str, lease: int, until_ms: int | None) -> Entry:
        """Let an event be out with an owner until a time, None: until it is settled."""
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
        """Let an event that is out be out until a later time."""
        if offset in self.entries and self.entries[offset].owner is not None:
            self.locks.set(offset, until_ms)

    def ready(self) -> int | None:
        """Take out the lowest offset that is to be delivered again; it must be given now."""
        while self._ready:
            offset = heapq.heappop(self._ready)
            # One that has several places there must not be taken out again before it is given.
            while self._ready and self._ready[0] == offset:
                heapq.heappop(self._ready)
            entry = self.entries.get(offset)
            # Places in the heap are not cleared when their event is settled or has to wait.
            if entry is not None and self._may_go(offset, entry):
                return offset
        return None

    def put_back(self, offset: int) -> None:
        """Put back what was taken out and could not be given."""
        heapq.heappush(self._ready, offset)

    def due(self, now_ms: int) -> bool:
        """Make ready what has waited until now; return whether there was any."""
        is_any = False
        while (offset := self.delays.take(now_ms)) is not None:
            self.entries[offset].due_ms = 0
            self._note(offset)
            self._wait(offset, self.entries[offset])
            is_any = True
        return is_any

    def expired(self, monotonic_ms: int) -> dict[int, Back]:
        """Return what was out for too long, to be applied."""
        found: dict[int, Back] = {}
        while (offset := self.locks.take(monotonic_ms)) is not None:
            found[offset] = Back(self.entries[offset].deliveries)
        return found

    def lost(self, start: int) -> None:
        """Count what was deleted before it was settled; what is out may still be settled."""
        gone = [at for at, entry in self.entries.items() if at < start and entry.owner is None]
        self.missed += len(gone)
        self.apply(dict.fromkeys(gone))
        if self.next < start:
            self.missed += start - self.next
            self.next = start

    def cut(self, end: int) -> None:
        """Forget what is at an offset or after: the end of the log was taken back."""
        self.apply(dict.fromkeys([at for at in self.entries if at >= end]))
        self.next = min(self.next, end)
        self.seen = None

    def know_keys(self, keys: Mapping[int, bytes | None]) -> None:
        """Take in the keys of all entries; an event that is not there any more is settled."""
        self.apply(dict.fromkeys([at for at in self.entries if at not in keys]))
        # Only now: what is gone has never stood in a line.
        self.lines = {}
        for offset, entry in self.entries.items():
            entry.key = _short(keys[offset])
            self._line_up(offset, entry)

    def alter(self, max_deliveries: int | None, *, keyed: bool) -> None:
        """Take other settings."""
        self.max_deliveries = max_deliveries
        self.keyed, self.lines = keyed, None if self.entries or not keyed else {}
        self.spent.clear()
        self._ready.clear()
        for offset, entry in self.entries.items():
            if entry.owner is None:
                self._wait(offset, entry)

    def held_by(self, owner: str) -> Iterator[int]:
        """Return what is out with an owner."""
        if owner not in self.owners:
            return iter(())
        return (offset for offset, entry in self.entries.items() if entry.owner == owner)

    def waiting(self) -> list[int]:
        """Return what is not settled and not out."""
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
        """Put an entry where it waits: to be buried, for its time, or for its turn."""
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
            # Who is first of its key now may go, unless it waits for something else.
            heapq.heappush(self._ready, line[0])
        else:
            del self.lines[entry.key]

    def _is_of(self, offset: int, key: bytes) -> bool:
        """Tell whether there is an entry of a key: one that was cut may be of another now."""
        entry = self.entries.get(offset)
        return entry is not None and entry.key == key


def _short(key: bytes | None) -> bytes | None:
    """Return what stands for a key: long ones would make the window as large as the events."""
    if key is None or len(key) <= _LONG_KEY:
        return key
    return blake2b(key, digest_size=_LONG_KEY).digest()
