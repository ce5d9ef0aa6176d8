"""The log in memory: for tests, and for topics with durability ``memory``.

How this works: a partition is a list of batches in offset order with two parallel lists, for binary
search by offset and by time. Dropping the oldest batches only advances a start index; the lists are
rebuilt now and then, so the cost does not depend on the number of batches. ``MemoryPartition`` has
no lock and makes no calls: it is used under its log's lock; its methods return the callbacks of
watches that are due, and the log calls these without the lock.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from struct import Struct

from mainstem.core.batch import place, read_header, read_span, set_last_offset
from mainstem.core.errors import Closed, OffsetOutOfRange, StorageFull, UnknownPartition
from mainstem.core.records import events, retain
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import (
    Appended,
    Batches,
    Bounds,
    PartitionId,
    Slice,
    TimedOffset,
    WritableBatch,
)
from mainstem.log.segments.needed_offsets import Needed
from mainstem.log.segments.offset_map import OffsetMap
from mainstem.log.tail_watches import TailWatches, Wake, call_all

MAX_BYTES = 1024 * 1024 * 1024
"""Default limit in bytes for all partitions; an append beyond it is refused."""
_NOTHING = Slice(0)
_SPAN_AT, _SPAN = 23, Struct(">i8xq")
"""Last offset delta and max timestamp of a batch header."""
_CLEAN_UP_AFTER = 1024
"""How many dropped batches may stay in the lists before they are rebuilt."""
_LOOKS = 100
"""Number of (time, end offset) samples kept over the retention time."""


class MemoryPartition:
    """The batches of one partition, without a lock and without a clock."""

    def __init__(
        self, place: str, settings: TopicSettings, *, start: int = 0, epoch: int = 0
    ) -> None:
        self.place = place
        """The partition's name in messages."""
        self.settings = settings
        self.start = self.tail = self.end = start
        self.upkept: int | None = None
        """The tail at the last upkeep; None if there is to be another one in any case."""
        self.epoch = epoch
        self.size_bytes = 0
        self._batches: list[bytes] = []
        self._bases: list[int] = []
        self._peaks: list[int] = []
        """The newest timestamp up to and including each batch: never decreases, so it can be
        bisected.
        """
        self._first = 0
        self._looks: list[tuple[int, int]] = []
        """Samples of (time, log end offset), from which the age of batches is estimated."""
        self._compact_over = settings.segment_bytes
        self.watches = TailWatches()

    def bounds(self) -> Bounds:
        """Return the current offsets and size of the partition."""
        return Bounds(self.start, self.tail, self.end, self.size_bytes, self.epoch)

    def append(self, batch: WritableBatch) -> int:
        """Assign an offset to a batch and store a copy; it is visible after ``advance``."""
        base = self.end
        place(batch, base, self.epoch)
        self._keep(bytes(batch), base)
        return base

    def advance(self, tail: int) -> list[Wake]:
        """Make batches before ``tail`` visible; return the watches to call.

        Also deletes the oldest batches above the topic's size limit, and compacts if that is due.
        """
        self.tail = max(self.tail, tail)
        limit = self.settings.expire_bytes
        if limit is not None and self.size_bytes > limit:
            self._shrink(limit)
        if self.settings.compact and self.size_bytes > self._compact_over:
            self._compact()
        return self.watches.due(self.tail)

    def read(self, offset: int, max_bytes: int) -> Slice:
        """Return whole batches, from the one that contains ``offset`` (or the next one) on."""
        if not self.start <= offset <= self.tail:
            raise OffsetOutOfRange(self.place, offset, self.start, self.tail)
        first = self._index(offset)
        last = bisect_left(self._bases, self.tail, first)
        if offset == self.tail or first == last:
            return _NOTHING
        length = len(self._batches[first])
        stop = first + 1
        while stop < last and length + len(self._batches[stop]) <= max_bytes:
            length += len(self._batches[stop])
            stop += 1
        taken = self._batches[first:stop]
        return Slice(length, taken[0] if len(taken) == 1 else b"".join(taken))

    def offset_at(self, timestamp_ms: int) -> TimedOffset | None:
        """Return offset and time of the first readable event at or after a time, or None."""
        # Peaks may come from dropped batches, so this is only where the search begins.
        index = bisect_left(self._peaks, timestamp_ms, self._first)
        while index < len(self._batches) and self._bases[index] < self.tail:
            batch = self._batches[index]
            header = read_header(batch)
            if header.max_timestamp >= timestamp_ms and not header.is_control:
                for event in events(batch):
                    if event.timestamp_ms >= timestamp_ms and event.offset >= self.start:
                        return TimedOffset(event.offset, event.timestamp_ms)
            index += 1
        return None

    def close(self) -> list[Wake]:
        """Drop all batches; return all watches, to be called."""
        self._forget_all()
        return self.watches.all()

    def cut(self, *, start: int | None = None, end: int | None = None) -> Bounds:
        """Delete events before ``start``, or at and after ``end`` (then a new epoch begins)."""
        highest = self.tail if end is None else min(self.tail, end)
        if end is not None and not self.start <= end <= self.end:
            raise OffsetOutOfRange(self.place, end, self.start, self.tail)
        if start is not None and start > highest:
            raise OffsetOutOfRange(self.place, start, self.start, self.tail)
        if end is not None:
            self._cut_end(end)
        if start is not None and start > self.start:
            self._cut_start(start)
        return self.bounds()

    def thin(self, needed: Needed) -> None:
        """Drop the events that are not needed; the newest visible batch stays."""
        first, bases = self._first, self._bases
        newest = bisect_left(bases, self.tail, first) - 1
        end = min(bisect_left(bases, needed.before, first), newest)
        kept: list[tuple[bytes, int, int]] = []
        for at in range(first, end):
            batch = self._batches[at]
            left = needed.kept(read_header(batch), batch)
            if left is not None:
                # Peaks of dropped batches are only where a search by time begins.
                kept.append((bytes(left), bases[at], self._peaks[at]))
            self.size_bytes += (0 if left is None else len(left)) - len(batch)
        if end > first:
            self._batches[first:end] = [batch for batch, _, _ in kept]
            bases[first:end] = [base for _, base, _ in kept]
            self._peaks[first:end] = [peak for _, _, peak in kept]

    def expire(self, now_ms: int) -> None:
        """Apply the topic's retention, except to batches that are not visible yet."""
        if self.settings.expire_ms is None:
            return
        oldest = now_ms - self.settings.expire_ms
        seen = self._look(now_ms, self.settings.expire_ms)
        while self._droppable():
            base, newest_ms = self._bases[self._first], read_span(self._batches[self._first])[1]
            if newest_ms >= oldest or (newest_ms < 0 and base >= seen):
                break
            self._drop_first()
        self._clean_up()

    def _look(self, now_ms: int, expire_ms: int) -> int:
        """Sample the end offset; return the offset before which all events are too old."""
        looks = self._looks
        if not looks or (self.end > looks[-1][1] and now_ms - looks[-1][0] >= expire_ms // _LOOKS):
            looks.append((now_ms, self.end))
        while len(looks) > 1 and looks[1][0] < now_ms - expire_ms:
            del looks[0]
        return looks[0][1] if looks[0][0] < now_ms - expire_ms else 0

    def _keep(self, batch: bytes, base: int) -> None:
        last_offset_delta, peak = _SPAN.unpack_from(batch, _SPAN_AT)
        if len(self._peaks) > self._first and self._peaks[-1] > peak:
            peak = self._peaks[-1]
        self._batches.append(batch)
        self._bases.append(base)
        self._peaks.append(peak)
        self.size_bytes += len(batch)
        self.end = base + last_offset_delta + 1

    def _index(self, offset: int) -> int:
        """Return the index of the batch that holds an offset, or the first one after it."""
        index = bisect_right(self._bases, offset, self._first) - 1
        if index < self._first:
            return self._first
        return index if read_header(self._batches[index]).last_offset >= offset else index + 1

    def _shrink(self, limit: int) -> None:
        # The newest batch is kept; otherwise a limit below one batch would keep nothing.
        while self.size_bytes > limit and self._first + 1 < len(self._bases) and self._droppable():
            self._drop_first()
        self._clean_up()

    def _droppable(self) -> bool:
        if self._first == len(self._bases):
            return False
        return read_header(self._batches[self._first]).last_offset < self.tail

    def _drop_first(self) -> None:
        first = self._first
        self.size_bytes -= len(self._batches[first])
        self._batches[first] = b""
        self._first = first + 1
        follows = self._bases[first + 1] if first + 1 < len(self._bases) else self.end
        self.start = max(self.start, follows)

    def _compact(self) -> None:
        """Keep the latest event of each key; the newest batch is not touched."""
        visible = bisect_left(self._bases, self.tail, self._first)
        if self.settings.compact_after_ms:
            young = self._peaks[-1] - self.settings.compact_after_ms
            visible = bisect_right(self._peaks, young, self._first, visible)
        offset_map = OffsetMap(self._peaks[-1] - self.settings.tombstone_ms)
        for batch in self._batches[self._first : visible]:
            offset_map.add(read_header(batch), batch)
        newest = max(visible - 1, self._first)
        older = self._batches[self._first : newest]
        newer = self._batches[newest:]
        compacted = (offset_map.kept(read_header(batch), batch) for batch in older)
        self._hold([bytes(batch) for batch in compacted if batch is not None] + newer)
        self._compact_over = max(self.settings.segment_bytes, 2 * self.size_bytes)

    def _clean_up(self) -> None:
        if self._first == len(self._bases):
            self._forget_all()
        elif self._first > _CLEAN_UP_AFTER and self._first * 2 > len(self._bases):
            self._hold(self._batches[self._first :])

    def _hold(self, batches: Sequence[bytes]) -> None:
        """Replace the contents by these batches."""
        end = self.end
        self._forget_all()
        for batch in batches:
            self._keep(batch, read_header(batch).base_offset)
        self.end = end

    def _forget_all(self) -> None:
        self._batches, self._bases, self._peaks = [], [], []
        self._first = self.size_bytes = 0

    def _cut_start(self, start: int) -> None:
        while self._first < len(self._bases):
            if read_header(self._batches[self._first]).last_offset >= start:
                break
            self._drop_first()
        self.start = start
        self._clean_up()

    def _cut_end(self, end: int) -> None:
        removed: list[bytes] = []
        while len(self._bases) > self._first:
            if read_header(self._batches[-1]).last_offset < end:
                break
            removed.append(self._batches.pop())
            self.size_bytes -= len(removed[-1])
            self._bases.pop()
            self._peaks.pop()
        if removed and read_header(removed[-1]).base_offset < end:
            first_part = _first_part(removed[-1], end)
            if first_part is not None:
                self._keep(first_part, read_header(first_part).base_offset)
        self.end = end
        self._looks = [(at_ms, min(seen, end)) for at_ms, seen in self._looks]
        self.tail = min(self.tail, end)
        self.epoch += 1
        self._clean_up()


class MemoryLog:
    """Partitions in memory; an append is visible at once."""

    def __init__(
        self, *, max_bytes: int = MAX_BYTES, now_ms: Callable[[], int] | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[PartitionId, MemoryPartition] = {}
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._now_ms = now_ms
        self._closed = False

    @property
    def written(self) -> "MemoryLog":
        """The log itself, as an append is visible at once."""
        return self

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create a partition, or change its settings; ``topic``: the name to use in messages."""
        with self._lock:
            self._check_open()
            known = self._partitions.get(partition)
            if known is None:
                place = f"partition {partition.number} of topic {topic!r}"
                self._partitions[partition] = MemoryPartition(place, settings)
            else:
                known.settings = settings

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions and their events; partitions that do not exist are ignored."""
        wakes: list[Wake] = []
        with self._lock:
            self._check_open()
            for partition in partitions:
                gone = self._partitions.pop(partition, None)
                if gone is not None:
                    self._size_bytes -= gone.size_bytes
                    wakes += gone.close()
        call_all(wakes)

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append checked batches, all or nothing, and make them visible together."""
        wakes: list[Wake] = []
        if not together:
            # Only those of the first partition, so that a refusal concerns one partition.
            batches = [each for each in batches if each[0] == batches[0][0]]
        with self._lock:
            found = [(self._partition(partition), batch) for partition, batch in batches]
            self._make_room(found)
            offsets = [partition.append(batch) for partition, batch in found]
            for partition, _ in found:
                before = partition.size_bytes
                wakes += partition.advance(partition.end)
                self._size_bytes += partition.size_bytes - before
        if wakes:
            call_all(wakes)
        return Appended(offsets, AT_ONCE, [partition.start for partition, _ in found])

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches, from the one that contains ``offset`` (or the next one) on."""
        with self._lock:
            return self._partition(partition).read(offset, max_bytes)

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the current offsets and size of the partition."""
        with self._lock:
            return self._partition(partition).bounds()

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Return offset and time of the first readable event at or after a time, or None."""
        with self._lock:
            return self._partition(partition).offset_at(timestamp_ms)

    def watch(self, partition: PartitionId, offset: int, wake: Wake) -> Callable[[], None]:
        """Call ``wake`` once, from any thread, when the partition's tail has passed ``offset``."""
        with self._lock:
            watched = self._partition(partition)
            token = watched.watches.add(offset, wake)
            due = watched.watches.due(watched.tail)
        call_all(due)

        def take_back() -> None:
            with self._lock:
                watched.watches.remove(token)

        return take_back

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Delete events before ``start``, or at and after ``end`` (then a new epoch begins)."""
        with self._lock:
            found = self._partition(partition)
            before = found.size_bytes
            bounds = found.cut(start=start, end=end)
            self._size_bytes += bounds.size_bytes - before
            return bounds

    def thin(self, partition: PartitionId, before: int, but: Collection[int]) -> None:
        """Drop the events before an offset at once, except those at some offsets."""
        with self._lock:
            found = self._partition(partition)
            was = found.size_bytes
            found.thin(Needed(before, but))
            self._size_bytes += found.size_bytes - was

    def upkeep(self) -> None:
        """Apply retention by time; does nothing if the log was given no clock."""
        if self._now_ms is None:
            return
        now_ms = self._now_ms()
        with self._lock:
            for partition in self._partitions.values():
                before = partition.size_bytes
                partition.expire(now_ms)
                self._size_bytes += partition.size_bytes - before

    def close(self) -> None:
        """Drop all partitions, and wake everyone who watches one."""
        with self._lock:
            self._closed = True
            wakes = [wake for each in self._partitions.values() for wake in each.close()]
            self._partitions.clear()
            self._size_bytes = 0
        call_all(wakes)

    def _partition(self, partition: PartitionId) -> MemoryPartition:
        try:
            return self._partitions[partition]
        except KeyError:
            self._check_open()
            raise UnknownPartition(partition.topic_id, partition.number) from None

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the memory log has been closed")

    def _make_room(self, found: Iterable[tuple[MemoryPartition, WritableBatch]]) -> None:
        wanted = self._size_bytes
        for _, batch in found:
            wanted += len(batch)
        if wanted > self._max_bytes:
            raise StorageFull(
                f"the memory log may hold {self._max_bytes} bytes, and this append would make it "
                f"{wanted}; trim topics, or set their retention_bytes"
            )
        self._size_bytes = wanted


def _first_part(batch: bytes, end: int) -> bytes | None:
    """Return the batch without its events at ``end`` and after, None if none is left."""
    part = retain(batch, lambda offset, _key, _has_value: offset < end)
    if part is None:
        return None
    shorter = bytearray(part)
    set_last_offset(shorter, end - 1)
    return bytes(shorter)
