"""An open queue in memory: delivery state, readers, and the callbacks of waiting consumers."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple

from mainstem.broker.callbacks import Callback
from mainstem.broker.deadlines import Alarm
from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.limits import WaitingBytes, WaitingLimits
from mainstem.broker.queues.reader import PartitionReader, Source, keys_of, offsets_of
from mainstem.broker.queues.records import Cause, Order, QueueKey, QueueSettings, WindowSet
from mainstem.broker.queues.replay import QueueFold
from mainstem.broker.topics.catalog import Topic
from mainstem.core.batch import BatchHeader, read_header
from mainstem.core.errors import MainstemError, OffsetOutOfRange
from mainstem.core.event import Event, Position
from mainstem.log.port import Bounds, PartitionId

Chosen = tuple[Window, Event]

_LEND_BYTES = 1024 * 1024
"""How many bytes are read at once when record batches are delivered."""


class Unsettled(NamedTuple):
    """An unsettled event, its delivery count, and its owner if it is in flight."""

    event: Event
    deliveries: int = 0
    owner: str | None = None


class Load:
    """Record batches and offsets collected for one delivery, within limits."""

    def __init__(self, max_events: int, max_bytes: int, *, least: bool) -> None:
        self._max_events = max_events
        self._least = least
        self._stored: dict[int, memoryview] = {}
        self._is_over = False
        self.room = max_bytes
        """Bytes left; negative if the only batch exceeds the limit."""
        self.offsets: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether the limits are reached."""
        is_full = len(self.offsets) >= self._max_events or self._is_over
        return is_full or (self.room <= 0 and not (self._least and not self._stored))

    @property
    def batches(self) -> list[memoryview]:
        """The batches, in offset order."""
        return [self._stored[base] for base in sorted(self._stored)]

    def fits(self, base: int, batch: memoryview) -> bool:
        """Tell whether a batch fits; if it does not, the load counts as full from now on."""
        is_first = self._least and not self._stored
        self._is_over = not (is_first or base in self._stored or len(batch) <= self.room)
        return not self._is_over

    def add(self, base: int, batch: memoryview, offsets: Iterable[int]) -> None:
        """Add a batch by its base offset, with the offsets in it that are delivered."""
        if base not in self._stored:
            self._stored[base] = batch
            self.room -= len(batch)
        self.offsets += offsets


class LiveQueue:
    """A queue in memory; used under the queues' lock."""

    topic: Topic

    def __init__(
        self, source: Source, key: QueueKey, settings: QueueSettings, alarm: Alarm
    ) -> None:
        self._source = source
        self._alarm = alarm
        self.key = key
        self.settings = settings
        self.windows: dict[int, Window] = {}
        self.redelivered = self.dead = 0
        """Numbers of redeliveries and dead letters since the queue was opened."""
        self._readers: dict[int, PartitionReader] = {}
        self._waiting: dict[int, Callback] = {}
        self._watches = 0
        self._turn = 0
        self._limits: WaitingLimits | None = None
        self._waiting_bytes = WaitingBytes()
        self._growth: dict[int, Callback] = {}
        """Functions that cancel the watch for appended events, by partition."""
        self.is_stalled = False
        """Whether consumers wait for expired events to be settled, as that failed."""
        self.is_closed = False
        """Whether the queue was deleted."""

    def fit(self, topic: Topic, fold: QueueFold) -> None:
        """Add state for new partitions of the topic; drop state of partitions that do not exist.

        The topic can lose partitions if the disk failed before their creation was durable.
        """
        self.topic = topic
        for number in list(self.windows)[len(topic.partitions) :]:
            del self.windows[number], self._readers[number]
        keyed, most = self.settings.order is Order.KEY, self.settings.max_deliveries
        for at in topic.partitions[len(self.windows) :]:
            window = Window(fold.window(self.key, at.number), most, keyed=keyed, alarm=self._alarm)
            self.windows[at.number] = window
            self._readers[at.number] = self._reader(at.number, window.next)

    def be_unsure(self) -> None:
        """Note that a crashed process may have delivered events; they then count as redelivered."""
        for number, window in self.windows.items():
            most = window.next + self.settings.max_unsettled
            window.unsure = min(self.bounds(number).end, most)

    def stall(self) -> None:
        """Note that expired events cannot be settled, so that events behind them are not read.

        The end of no partition is known then: consumers are woken when the events are settled, as
        a watch for appends would only find what could not be read.
        """
        self.is_stalled = True
        for window in self.windows.values():
            window.seen = None

    @property
    def is_unsure(self) -> bool:
        """Whether there are events that may have been in flight when a process crashed."""
        return any(window.start < window.unsure for window in self.windows.values())

    def alter(self, settings: QueueSettings) -> list[Callback]:
        """Apply changed settings; return the waiting consumers' callbacks, to be called."""
        if settings == self.settings:
            return []
        self.settings = settings
        for number, window in self.windows.items():
            window.alter(settings.max_deliveries, keyed=settings.order is Order.KEY)
            window.seen = None
            self._readers[number] = self._reader(number, window.next)
        return self.take_waiting()

    def out_with(self, owner: str) -> int:
        """Return the number of events in flight with an owner."""
        return sum(window.owners.get(owner, 0) for window in self.windows.values())

    def in_turn(self, partitions: Collection[int]) -> list[int]:
        """Return those of the partitions that exist.

        Each call begins with the next one, in rotation.
        """
        numbers = [number for number in partitions if number in self.windows]
        if self.settings.order is Order.PRIORITY:
            return sorted(numbers, reverse=True)
        self._turn += 1
        first = self._turn % max(1, len(numbers))
        return numbers[first:] + numbers[:first]

    def choose(self, max_events: int, max_bytes: int) -> Iterator[Chosen]:
        """Yield events that may be delivered now; the caller must deliver each one at once.

        Partitions take turns, so that none starves.
        """
        for number in self.in_turn(self.windows):
            for window, event in self._choose_in(number, max_events):
                yield window, event
                max_events -= 1
                max_bytes -= len(event.value or b"") + len(event.key or b"")
                if max_events <= 0 or max_bytes <= 0:
                    return

    def acquire_batches(
        self, number: int, max_events: int, max_bytes: int, *, whole: bool, least: bool
    ) -> Load:
        """Return record batches, and the offsets in them that the caller must deliver now.

        ``whole``: a batch that was never read is delivered to its end, even beyond ``max_events``.
        ``least``: one batch is returned, if there is one, whatever its size.
        """
        load = Load(max_events, max_bytes, least=least)
        if not self._may_have_more(number):
            return load
        try:
            self._lend_again(number, load)
            while (
                not load.is_full and (fresh := self._fresh_batches(number, load.room)) is not None
            ):
                for batch in fresh:
                    header = read_header(batch)
                    if load.is_full or not load.fits(header.base_offset, batch):
                        break
                    limit = header.count if whole else max_events - len(load.offsets)
                    if chosen := self._take_in(number, batch, header, limit):
                        load.add(header.base_offset, batch, chosen)
        except MainstemError:
            # The events collected so far must be delivered; the next call raises the error again.
            if not load.offsets:
                raise
        finally:
            # The reader continues here when events are next delivered one by one.
            self.begin(number)
        return load

    def peek(self, limit: int, after: Position | None = None) -> list[Unsettled]:
        """Return the first unsettled events, or the first ones after a position."""
        found: list[Unsettled] = []
        for number, window in self.windows.items():
            first = 0
            if after is not None and number <= after.partition:
                if number < after.partition:
                    continue
                first = after.offset + 1
            tail = self.keep_within(number).tail
            entries = (at for at in window.entries if at >= first)
            # Some events may have been deleted, so read on until the limit is reached.
            while chosen := list(islice(entries, limit - len(found))):
                for offset, event in self.again(number, chosen).items():
                    entry = window.entries[offset]
                    found.append(Unsettled(event, entry.deliveries, entry.owner))
            ahead = self._reader(number, min(tail, max(window.next, first)))
            while len(found) < limit and (fresh := ahead.take()) is not None:
                found.append(Unsettled(fresh))
        return found

    def bounds(self, number: int) -> Bounds:
        """Return a partition's first offset, tail and end, as this queue sees them."""
        at = PartitionId(self.key.topic_id, number)
        return self._source.seen_by(at, self.settings.unsynced).bounds(at)

    def keep_within(self, number: int) -> Bounds:
        """Settle, as missed, events that the log has deleted; return the partition's bounds."""
        window = self.windows[number]
        bounds = self.bounds(number)
        if bounds.start > window.start:
            was = window.next
            window.lost(bounds.start)
            if window.next != was:
                self.begin(number)
        return bounds

    def again(self, number: int, offsets: Iterable[int]) -> dict[int, Event]:
        """Return events that were read before, by offset; deleted ones are left out."""
        return self._readers[number].again(offsets)

    def move(self, number: int, at: WindowSet) -> None:
        """Replace a partition's state by one that continues at another offset."""
        keyed, most = self.settings.order is Order.KEY, self.settings.max_deliveries
        self.windows[number] = Window(at, most, keyed=keyed, alarm=self._alarm)
        self.begin(number)

    def skip(self, number: int, tail: int) -> None:
        """Settle everything before an offset, except events in flight."""
        window = self.windows[number]
        window.apply(dict.fromkeys(window.waiting()))
        window.next = tail
        window.written()
        self.begin(number)

    def begin(self, number: int) -> None:
        """Make a partition's reader continue at the first event that this queue has never read."""
        self._readers[number].begin(self.windows[number].next)

    def expire(self, monotonic_ms: int, now_ms: int) -> bool:
        """Return events with expired locks to the queue; end due delays; tell if there were any."""
        is_changed = False
        for window in self.windows.values():
            if window.entries:
                back = window.expired(monotonic_ms)
                window.apply(back)
                is_changed = window.due(now_ms) or bool(back) or is_changed
        return is_changed

    def deadlines(self) -> tuple[int | None, int | None, bool]:
        """Return when the first lock expires, and when the first delay or time to live ends.

        Each is None if there is none. Also tells whether some event must still become a dead
        letter.
        """
        lock_ms: int | None = None
        delay_ms: int | None = None
        is_spent = False
        for window in self.windows.values():
            if (due := window.head_ms) is not None and (delay_ms is None or due < delay_ms):
                delay_ms = due
            if not window.entries:
                continue
            is_spent = is_spent or bool(window.spent)
            if (due := window.locks.next()) is not None and (lock_ms is None or due < lock_ms):
                lock_ms = due
            if (due := window.delays.next()) is not None and (delay_ms is None or due < delay_ms):
                delay_ms = due
        return lock_ms, delay_ms, is_spent

    def over_limits(self, now_ms: int) -> list[tuple[int, int, Cause]]:
        """Return expired and excess events by partition and offset, a bounded number per call."""
        if self._limits is None or self._limits.settings is not self.settings:
            self._limits = WaitingLimits(self.settings, self._waiting_bytes)
        found: list[tuple[int, int, Cause]] = []
        tails = {at: self.keep_within(at).tail for at in self.windows}
        if not self.settings.has_length and all(map(self._is_head_fresh, self.windows)):
            heads = {at: self._readers[at].peek() for at in self.windows}
            if not self._limits.has_expired(self.windows, heads, now_ms):
                return found
        waiting = {at: self._waiting_events(at) for at in self.windows}
        causes = self._limits.over(self.windows, tails, waiting, self._reader, now_ms)
        for number, event, cause in causes:
            window = self.windows[number]
            if event.offset not in window.entries:
                window.add(event.offset, event.key)
            found.append((number, event.offset, cause))
        for number in {at for at, _, _ in found}:
            self.begin(number)
        return found

    def waiting_bytes(self) -> int:
        """Return the total size in bytes of visible values that were never delivered."""
        return self._waiting_bytes.count(self.windows, self._reader)

    def _is_head_fresh(self, number: int) -> bool:
        """Tell whether the oldest waiting event of a partition was never read."""
        window = self.windows[number]
        return window.out == len(window.entries)

    def _waiting_events(self, number: int) -> Iterator[Event]:
        """Yield waiting events, oldest first, reading no further than the caller iterates."""
        window = self.windows[number]
        for offset in window.waiting():
            yield from self.again(number, (offset,)).values()
        ahead = self._reader(number, max(window.next, self.bounds(number).start))
        while (event := ahead.take()) is not None:
            yield event

    def watch_growth(self, grown: Callback) -> None:
        """Call ``grown`` once for each partition, at its next append."""
        for number in self.windows:
            if number not in self._growth:
                at = PartitionId(self.key.topic_id, number)
                self._growth[number] = self._source.seen_by(at, self.settings.unsynced).watch(
                    at,
                    self.bounds(number).tail,
                    partial(self._grew, number, grown),
                )

    def _grew(self, number: int, grown: Callback) -> None:
        """Drop the watch of a partition whose append it reported; called from any thread."""
        self._growth.pop(number, None)
        grown()

    def close(self) -> None:
        """Cancel all watches, when the queue is deleted."""
        self.is_closed = True
        for take_back in list(self._growth.values()):
            take_back()
        self._growth.clear()

    def wait_ms(self, monotonic_ms: int, now_ms: int) -> int | None:
        """Return the ms until the next lock, delay or time to live ends.

        None if none is running.
        """
        lock_ms, delay_ms, _ = self.deadlines()
        clocks = ((lock_ms, monotonic_ms), (delay_ms, now_ms))
        waits = [due - now for due, now in clocks if due is not None]
        return max(0, min(waits)) if waits else None

    def watch(self, wake: Callback, partitions: Collection[int]) -> Callback:
        """Call ``wake`` when an event returns to the queue, or is appended after all were read."""
        self._watches += 1
        token = self._watches
        self._waiting[token] = wake
        takes_back, awaited = [], list[int]()
        for number in [each for each in self.windows if each in partitions]:
            window = self.windows[number]
            if window.seen is not None:
                window.awaited = range(window.seen, sys.maxsize)
                awaited.append(number)
                at = PartitionId(self.key.topic_id, number)
                seen_by = self._source.seen_by(at, self.settings.unsynced)
                takes_back.append(seen_by.watch(at, window.seen, wake))

        def unwatch() -> None:
            self._waiting.pop(token, None)
            # The topic may be deleted.
            with suppress(MainstemError):
                for number in awaited:
                    window = self.windows[number]
                    window.awaited = range(window.awaited.start, self.bounds(number).tail)
            for take_back in takes_back:
                take_back()

        return unwatch

    def take_waiting(self) -> list[Callback]:
        """Remove and return the waiting callbacks.

        The caller calls them after releasing the lock.
        """
        waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    def _choose_in(self, number: int, limit: int) -> Iterator[Chosen]:
        window, reader = self.windows[number], self._readers[number]
        if not self._may_have_more(number):
            return
        batch: Mapping[int, Event] = {}
        while limit > 0 and (offset := window.ready()) is not None:
            if offset not in batch:
                try:
                    batch = reader.batch_at(offset)
                except MainstemError:
                    window.put_back(offset)
                    raise
            event = batch.get(offset)
            if event is None:
                # Compaction removed the event: a later event of its key supersedes it.
                window.apply({offset: None})
                continue
            limit -= 1
            yield window, event
        while limit > 0:
            fresh = self._fresh(number)
            if fresh is None:
                return
            if window.add(fresh.offset, fresh.key):
                limit -= 1
                yield window, fresh

    def _fresh(self, number: int) -> Event | None:
        """Return the next event not read before; None if there is none, or at ``max_unsettled``."""
        window, reader = self.windows[number], self._readers[number]
        window.seen = None
        if window.is_full(self.settings.max_unsettled):
            return None
        if (loaded := reader.take_loaded()) is not None:
            return loaded
        # Before reading, so that an append in between is noticed.
        tail = self.bounds(number).tail
        try:
            # At the tail there is nothing to read.
            event = None if reader.offset >= tail else reader.take()
        except OffsetOutOfRange as error:
            if error.offset > error.tail:
                raise
            window.lost(error.start)
            reader.begin(window.next)
            event = reader.take()
        if event is None:
            window.next = max(window.next, reader.offset)
            # The events there belong to an open transaction; its end marker will wake the queue.
            window.seen = max(tail, window.next)
        return event

    def _lend_again(self, number: int, load: Load) -> None:
        """Add to ``load`` the batches of events that are ready for redelivery."""
        window, reader = self.windows[number], self._readers[number]
        batch: memoryview | None = None
        held: Collection[int] = ()
        base = last = -1
        while not load.is_full and (offset := window.ready()) is not None:
            if offset > last:
                try:
                    batch = reader.stored_at(offset)
                except MainstemError:
                    window.put_back(offset)
                    raise
                held = () if batch is None else offsets_of(batch)
                base = offset if batch is None else read_header(batch).base_offset
                last = offset if batch is None else read_header(batch).last_offset
            if batch is None or offset not in held:
                # Compaction removed the event: a later event of its key supersedes it.
                window.apply({offset: None})
                continue
            if not load.fits(base, batch):
                window.put_back(offset)
                break
            load.add(base, batch, [offset])

    def _fresh_batches(self, number: int, max_bytes: int) -> list[memoryview] | None:
        """Return batches that were never read; None if there are none, or at ``max_unsettled``."""
        window, reader = self.windows[number], self._readers[number]
        window.seen = None
        if window.is_full(self.settings.max_unsettled):
            return None
        tail = self.bounds(number).tail
        most = max(1, min(max_bytes, _LEND_BYTES))
        try:
            found, end = reader.read(window.next, most)
        except OffsetOutOfRange as error:
            if error.offset > error.tail:
                raise
            window.lost(error.start)
            found, end = reader.read(window.next, most)
        if end == window.next:
            window.seen = max(tail, end)
            return None
        if not found:
            window.next = end
        return found

    def _take_in(
        self, number: int, batch: memoryview, header: BatchHeader, limit: int
    ) -> list[int]:
        """Add entries for a newly read batch; return the offsets to deliver now."""
        window, chosen = self.windows[number], list[int]()
        fresh = keys_of(batch) if window.keyed else dict.fromkeys(offsets_of(batch))
        for offset, key in fresh.items():
            if offset < window.next:
                continue
            if len(chosen) >= limit or window.is_full(self.settings.max_unsettled):
                return chosen
            if window.add(offset, key):
                chosen.append(offset)
        window.next = max(window.next, header.last_offset + 1)
        return chosen

    def _may_have_more(self, number: int) -> bool:
        """Tell whether a partition may have an event that can be delivered now.

        With ``order=key``, this first reads the keys of unsettled events from before a restart.
        """
        window = self.windows[number]
        bounds = self.keep_within(number)
        if window.seen is not None and bounds.tail <= window.seen and not window.may_have_ready:
            return False
        if window.lacks_keys:
            found = self._readers[number].again(window.entries)
            window.know_keys({at: event.key for at, event in found.items()})
        return True

    def _reader(self, number: int, offset: int) -> PartitionReader:
        at = PartitionId(self.key.topic_id, number)
        wide, place = self.settings.uncommitted, (self.topic.name, at, offset)
        unsynced = self.settings.unsynced
        return PartitionReader(self._source, *place, uncommitted=wide, unsynced=unsynced)
