"""Delayed events: stored at once, published when due, independently of one another.

How this works: a delayed event is a record of ``__mainstem_delayed``; only the due time and the
offset are in memory (``due_index.py``). When events are due, a single append writes them to their
topics, together with a mark that says which were published. So a crash neither loses nor repeats
one. A tick publishes at most ``MAX_AT_ONCE`` events, and the next tick waits until these are
durable: a million events due together are published in many small appends, with other work in
between.

Events for a head's route (an AMQP exchange) are routed when they are due, by the router that the
head has registered; if it has not registered one yet, they wait for that. An event whose topic was
deleted is dropped. An event whose router raises an error stays stored, and is tried again when the
head registers its router anew, after a restart.

The topic is trimmed up to the first event that is still delayed. If few of the events after that
are still delayed, they are copied to the end of the topic, so that an event due next year does not
keep the disk space of all later events.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from mainstem.broker.delays.due_index import DueIndex, Entry
from mainstem.broker.delays.records import (
    Delayed,
    Moved,
    ToRoute,
    ToTopic,
    decode_key,
    delayed_record,
    moved_record,
    original,
    ranges_of,
)
from mainstem.broker.journal import DELAYED, IDS, SETTINGS_OF
from mainstem.broker.publishing.batching import PartitionBatch, runs
from mainstem.broker.queues.dead_letters import RoutedEvent
from mainstem.broker.state import OpenTopic, State
from mainstem.core.batch import batches, read_header
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.partitioner import Turns
from mainstem.core.records import build_one, events
from mainstem.log.port import Appended, Batches, PartitionId

MAX_AT_ONCE = 200
"""Maximum number of events published, or copied to the end, in one append."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes published in one append, unless a single event is larger."""
THIN_SHARE = 4
"""Copy delayed events to the end if fewer than one in this many events is still delayed."""
TIDY_MS = 1_000
LOOK_MS = 60_000
"""The longest time between ticks: the clock may be set, and timers stop while a machine sleeps."""
_AGAIN_MS = 1_000
"""Delay in ms before a retry when the disk is full."""
_READ_BYTES = 64 * 1024
_NEAR = 64
"""Offsets at most this far apart are read together."""
_AT = PartitionId(IDS[DELAYED], 0)

_logger = logging.getLogger("mainstem.broker")

Router = Callable[[str, Event], Sequence[RoutedEvent]]
"""Maps a route and a due event to events for topics; an empty result drops it. Must not block."""


class DelayedEvent(NamedTuple):
    """An event to publish when it is due: to a topic, or through a head's route."""

    event: Event
    due_ms: int
    """The due time, in wall-clock ms since 1970."""
    topic: str = ""
    partition: int | None = None
    """If None, the partition is chosen by the event's key, or in turn without a key."""
    head: str = ""
    """The head whose router resolves ``route``; empty if the event goes to ``topic``."""
    route: str = ""


class Waiting(NamedTuple):
    """How many events are delayed, and when the next is due, in milliseconds since 1970."""

    events: int
    next_due_ms: int | None
    dropped: int
    """Due events that were dropped since the start because their topic was deleted."""
    failed: int
    """Due events that their head could not route since the start; they stay stored."""


class Delays:
    """Stores delayed events, and publishes those that are due; synchronous and thread-safe."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._log = state.log
        self._now_ms, self._monotonic_ms = state.clocks
        self._lock = threading.Lock()
        self._routers: dict[str, Router] = {}
        self._unrouted: dict[str, list[Entry]] = {}
        """Due entries that wait for their head to register a router, by head.

        Also those whose router has raised an error: after the next start it may succeed.
        """
        self._blocked = False
        """Whether publishing waits: for an append, or for a due event, to become durable."""
        self._retry_ms = 0
        self._tidy_ms = 0
        self._moved_some = False
        self._dropped = self._failed = 0
        self._log.ensure(_AT, DELAYED, SETTINGS_OF[DELAYED])
        self.index = DueIndex()
        self._replay_into(self.index)

    # Storing

    def append(self, before: Batches, delayed: Sequence[DelayedEvent], beside: Batches) -> Appended:
        """Append batches and delayed events, all or nothing; raises if a target is invalid.

        ``before``, ``beside``: batches for other topics, appended before and after the delayed
        events.
        """
        if not delayed:
            return self._log.append([*before, *beside])
        now_ms = self._now_ms()
        # One batch per event, so that each can be read alone.
        own = [
            (_AT, build_one(delayed_record(each.event, each.due_ms, self._target(each)), now_ms))
            for each in delayed
        ]
        with self._lock:
            appended = self._log.append([*before, *own, *beside])
            first = self.index.next_due_ms()
            for at, each in enumerate(delayed, len(before)):
                self.index.add(appended.offsets[at], each.due_ms)
        if first is None or min(each.due_ms for each in delayed) < first:
            self._state.alarm()
        return appended

    def route_delayed(self, head: str, router: Router) -> None:
        """Register the router of a head's routes; the next tick routes events that wait for it."""
        with self._lock:
            self._routers[head] = router
            self.index.put_back(self._unrouted.pop(head, ()))
        self._state.alarm()

    def waiting(self) -> Waiting:
        """Return how many events are delayed, and when the next one is due."""
        with self._lock:
            return Waiting(len(self.index), self.index.next_due_ms(), self._dropped, self._failed)

    def _target(self, delayed: DelayedEvent) -> ToTopic | ToRoute:
        if delayed.head:
            return ToRoute(delayed.head, delayed.route)
        opened = self._state.opened.get(delayed.topic)
        if opened is None:
            raise UnknownTopic(delayed.topic)
        # Raises what publishing now would raise: later no caller would get the error.
        runs(opened.topic, (delayed.event,), delayed.partition, Turns(), self._now_ms())
        return ToTopic(opened.topic.id, delayed.partition)

    # Publishing

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is due, in wall-clock ms; None if it would do nothing."""
        if self._blocked:
            return None
        with self._lock:
            due_ms = self.index.next_due_ms()
        if self._moved_some:
            due_ms = self._tidy_ms if due_ms is None else min(due_ms, self._tidy_ms)
        if due_ms is None:
            return None
        return max(min(due_ms, self._now_ms() + LOOK_MS), self._retry_ms)

    def tick(self) -> None:
        """Publish at most MAX_AT_ONCE of the events that are due; if none is, free disk space."""
        now_ms = self._now_ms()
        if self._blocked or now_ms < self._retry_ms:
            return
        with self._lock:
            try:
                if not self._move(now_ms) and self._moved_some and now_ms >= self._tidy_ms:
                    self._tidy(now_ms)
            except MainstemError:
                # The disk is full, or has failed; nothing was published.
                self._retry_ms = now_ms + _AGAIN_MS

    def _move(self, now_ms: int) -> bool:
        """Publish events that are due; return False if none is."""
        entries = self.index.take(now_ms, MAX_AT_ONCE)
        if not entries:
            return False
        left = dict.fromkeys(entries)
        try:
            start, tail = self._log.bounds(_AT)[:2]
            unseen = [offset for _, offset in entries if offset >= tail]
            found = self._records(sorted(at for _, at in entries if start <= at < tail))
            self._forget_lost(at for _, at in entries if at < tail and at not in found)
            slice_ = _Slice(self._state, now_ms)
            for entry in entries:
                if entry[1] in found and not slice_.is_full:
                    record, said = found[entry[1]]
                    if not self._send(slice_, entry[1], original(record, said), said.target):
                        head = said.target.head if isinstance(said.target, ToRoute) else ""
                        self._unrouted.setdefault(head, []).append(entry)
                        del left[entry]
            if slice_.moved:
                moved = Moved(ranges_of(slice_.moved))
                mark = build_one(moved_record(moved), now_ms)
                appended = self._log.append([*slice_.batches(), (_AT, mark)])
                self._dropped += slice_.dropped
                self.index.remove(moved.ranges)
                left = {entry: None for entry in left if entry[1] in self.index}
                self._moved_some = True
                self._block_until(appended)
            elif unseen:
                self._wait_for(min(unseen))
        finally:
            self.index.put_back(left)
        return True

    def _forget_lost(self, offsets: Iterable[int]) -> None:
        """Drop events whose record was quarantined, because it was damaged on disk."""
        for offset in offsets:
            self.index.remove([(offset, offset)])
            self._dropped += 1

    def _send(self, slice_: "_Slice", offset: int, event: Event, target: ToTopic | ToRoute) -> bool:
        """Add a due event to ``slice_``, once for each topic that its target resolves to.

        Returns False if it cannot be routed now.
        """
        if isinstance(target, ToRoute):
            router = self._routers.get(target.head)
            if router is None:
                return False
            try:
                found = router(target.route, event)
            except Exception as error:
                # The events behind this one must not suffer from a bug in a head.
                self._failed += 1
                _logger.error("a delayed event cannot be routed: %s", target, exc_info=error)
                return False
            slice_.moved.append(offset)
            for routed in found:
                slice_.add(self._state.opened.get(routed.topic), routed.partition, routed.event)
            return True
        slice_.moved.append(offset)
        topic = self._state.topics.by_id(target.topic_id)
        opened = None if topic is None else self._state.opened.get(topic.name)
        slice_.add(opened, target.partition, event)
        return True

    def _block_until(self, appended: Appended) -> None:
        self._blocked = True
        appended.durable.then(lambda _: self._unblock())

    def _wait_for(self, offset: int) -> None:
        """Publish nothing until the event at ``offset``, which is due already, is durable."""
        self._blocked = True
        self._log.watch(_AT, offset, self._unblock)

    def _unblock(self) -> None:
        self._blocked = False
        self._state.alarm()

    # Disk space

    def _tidy(self, now_ms: int) -> None:
        """Trim the topic, and copy delayed events from its start to its end if they are few."""
        self._tidy_ms = now_ms + TIDY_MS
        bounds = self._log.bounds(_AT)
        first = min(next(self.index.offsets(), bounds.tail), bounds.tail)
        held, events_ = first - bounds.start, bounds.tail - bounds.start
        segment_bytes = SETTINGS_OF[DELAYED].segment_bytes
        if held and (first == bounds.tail or bounds.size_bytes * held // events_ >= segment_bytes):
            self._log.cut(_AT, start=first)
            bounds = self._log.bounds(_AT)
        is_thin = len(self.index) * THIN_SHARE < bounds.tail - bounds.start
        if is_thin and bounds.size_bytes >= 2 * segment_bytes and len(self.index):
            self._write_anew(now_ms)
            self._tidy_ms = now_ms
        else:
            self._moved_some = False

    def _write_anew(self, now_ms: int) -> None:
        """Copy the first delayed events to the end, and mark the originals as moved."""
        offsets = [at for at, _ in zip(self.index.offsets(), range(MAX_AT_ONCE), strict=False)]
        copies: dict[int, tuple[Event, int]] = {}
        size = 0
        for offset, (record, said) in self._records(offsets).items():
            if size > MAX_BYTES:
                break
            size += len(record.value or b"")
            copies[offset] = (record, said.due_ms)
        moved = Moved(ranges_of(copies))
        mark = build_one(moved_record(moved), now_ms)
        written = [(_AT, build_one(_bare(record), now_ms)) for record, _ in copies.values()]
        appended = self._log.append([*written, (_AT, mark)])
        self.index.remove(moved.ranges)
        for offset, (_, due_ms) in zip(appended.offsets, copies.values(), strict=False):
            self.index.add(offset, due_ms)
        self._block_until(appended)

    # The topic

    def _replay_into(self, index: DueIndex) -> None:
        offset, tail = self._log.bounds(_AT)[:2]
        while offset < tail:
            read = self._log.read(_AT, offset, 16 * _READ_BYTES)
            if not read.length:
                return
            for batch in batches(read.tobytes()):
                for record in events(batch, from_offset=offset):
                    apply(index, record)
                    offset = record.offset + 1

    def _records(self, offsets: Sequence[int]) -> dict[int, tuple[Event, Delayed]]:
        """Return the delayed events at these offsets, which must be ascending."""
        found: dict[int, tuple[Event, Delayed]] = {}
        at = 0
        while at < len(offsets):
            read = self._log.read(_AT, offsets[at], _READ_BYTES)
            if not read.length:
                break
            for batch in batches(read.tobytes()):
                base = read_header(batch).base_offset
                while at < len(offsets) and offsets[at] < base:
                    # Its record is gone.
                    at += 1
                if at < len(offsets) and offsets[at] == base:
                    for record in events(batch):
                        said = decode_key(record.key or b"")
                        if isinstance(said, Delayed):
                            found[base] = record, said
                    at += 1
                if at == len(offsets) or offsets[at] > base + _NEAR:
                    break
        return found


class _Slice:
    """The events that one append publishes."""

    def __init__(self, state: State, now_ms: int) -> None:
        self._state, self._now_ms = state, now_ms
        self._events: dict[tuple[str, int | None], list[Event]] = {}
        self._opened: dict[str, OpenTopic] = {}
        self._bytes = 0
        self.moved: list[int] = []
        self.dropped = 0

    @property
    def is_full(self) -> bool:
        """Whether the append has reached its size limit."""
        return self._bytes > MAX_BYTES

    def add(self, opened: OpenTopic | None, at: int | None, event: Event) -> None:
        """Add an event for a topic; it is dropped if the topic does not accept it."""
        if opened is None:
            self.dropped += 1
            return
        self._opened[opened.topic.name] = opened
        self._events.setdefault((opened.topic.name, at), []).append(event)
        self._bytes += len(event.value or b"")

    def batches(self) -> Iterator[tuple[PartitionId, bytearray | memoryview]]:
        """Yield all events as record batches; within each topic in order of due time."""
        for (name, at), found in self._events.items():
            opened = self._opened[name]
            for run in self._runs(opened, found, at):
                yield opened.topic.partitions[run.partition], run.batch

    def _runs(
        self, opened: OpenTopic, found: Sequence[Event], at: int | None
    ) -> list[PartitionBatch]:
        """Build record batches of events for one topic, without those that it does not accept."""
        try:
            return runs(opened.topic, found, at, opened.turns, self._now_ms)
        except MainstemError:
            if len(found) > 1:
                return [run for each in found for run in self._runs(opened, (each,), at)]
            self.dropped += 1
            return []


def apply(index: DueIndex, record: Event) -> None:
    """Apply one record of ``__mainstem_delayed``, new or replayed, to the index."""
    said = decode_key(record.key or b"")
    if isinstance(said, Moved):
        index.remove(said.ranges)
    else:
        index.add(record.offset, said.due_ms)


def _bare(record: Event) -> Event:
    return Event(record.value, record.key, record.headers)
