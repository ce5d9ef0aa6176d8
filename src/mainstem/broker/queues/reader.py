"""Reads a partition for a queue: new events in order, events to be redelivered by offset."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from mainstem.broker.queues.batch_cache import BatchCache, header_of
from mainstem.broker.transactions.read_committed import Committed, visible
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import events, keys
from mainstem.log.port import Log, PartitionId, Readable, Slice

_READ_BYTES = 64 * 1024


class Source(NamedTuple):
    """What queues read events from: the log, with the state of transactions."""

    log: Log
    transactions: Transactions
    cache: BatchCache

    def seen_by(self, at: PartitionId, unsynced: bool) -> Readable:
        """Return the log as a queue sees a partition.

        ``unsynced``: include events that are not durable yet, unless the partition has
        transactions: then the order of events and markers matters, and a queue sees only what is
        durable.
        """
        if unsynced and not self.transactions.had_any(at):
            return self.log.written
        return self.log


class PartitionReader:
    """Reads a partition's events; holds at most one slice of the log in memory."""

    def __init__(
        self,
        source: Source,
        topic: str,
        at: PartitionId,
        offset: int,
        *,
        uncommitted: bool = False,
        unsynced: bool = False,
    ) -> None:
        self._source = source
        self._log, self._transactions, self._cache = source
        self._unsynced = unsynced
        self._topic = topic
        self._at = at
        self._uncommitted = uncommitted
        self._events: Iterator[Event] = iter(())
        self._ahead: Event | None = None
        """The event that ``peek`` returned and ``take`` has not returned yet."""
        self._last = 0
        """The last offset of the slice in memory."""
        self.offset = offset
        """Next offset to read; lower ones were returned already or cannot be delivered."""

    def begin(self, offset: int) -> None:
        """Continue at another offset."""
        self._events = iter(())
        self._ahead = None
        self.offset = offset

    def peek(self) -> Event | None:
        """Return the event that ``take`` would return, without removing it."""
        if self._ahead is None:
            self._ahead = self.take()
        return self._ahead

    def take(self) -> Event | None:
        """Return the next event, or None if there is none yet; raises OffsetOutOfRange."""
        while True:
            event = self.take_loaded()
            if event is not None:
                return event
            found, end = self.read(self.offset, _READ_BYTES)
            if end == self.offset:
                return None
            self._last = end - 1
            self._events = self._decoded(found, end)

    def take_loaded(self) -> Event | None:
        """Return the next event if it is in memory, None if ``take`` may have to read it."""
        if (ahead := self._ahead) is not None:
            self._ahead = None
            return ahead
        event = next(self._events, None)
        if event is not None and event.offset >= self._last:
            # Frees the slice now; it would otherwise stay in memory until the next event.
            next(self._events, None)
        return event

    def read(self, offset: int, max_bytes: int) -> tuple[list[memoryview], int]:
        """Return record batches without aborted ones, and the offset after the last one read."""
        if self._unsynced and self._source.seen_by(self._at, True) is not self._log:
            found = self._written(offset, max_bytes)
        elif self._uncommitted:
            found = Committed(self._log.read(self._at, offset, max_bytes), offset)
        else:
            found = self._transactions.read_committed_at(self._at, offset, max_bytes)
        view = memoryview(found.data.tobytes())
        end = max((read_header(each).last_offset + 1 for each in batches(view)), default=offset)
        return list(visible(view, found.aborted)), max(offset, end)

    def _written(self, offset: int, max_bytes: int) -> Committed:
        """Read also events that are not durable yet, unless a transaction has begun meanwhile."""
        data = self._log.written.read(self._at, offset, max_bytes)
        # After reading: a transaction is noted under the same lock as its first batch is written.
        if not self._transactions.has_any(self._at):
            return Committed(data, offset)
        if offset >= self._log.bounds(self._at).tail:
            return Committed(Slice(0), offset)
        return self._transactions.read_committed_at(self._at, offset, max_bytes)

    def again(self, offsets: Iterable[int]) -> dict[int, Event]:
        """Return events that were read before, by offset; deleted ones are left out."""
        found: dict[int, Event] = {}
        batch: Mapping[int, Event] = {}
        last = -1
        for offset in sorted(offsets):
            if offset > last:
                batch = self.batch_at(offset)
                last = max(batch, default=offset)
            if offset in batch:
                found[offset] = batch[offset]
        return found

    def batch_at(self, offset: int) -> Mapping[int, Event]:
        """Return the events of the batch that contains an offset; none if the batch was deleted."""
        stored = self._stored(offset)
        if stored is None:
            return {}
        head = (self._at, header_of(stored))
        found = self._cache.get(head)
        if found is None:
            batch = next(batches(stored.tobytes()))
            found = {each.offset: each for each in self._of(batch, 0)}
            self._cache.keep(head, found)
        return found

    def stored_at(self, offset: int) -> memoryview | None:
        """Return the record batch that contains an offset, or the next batch; None at the end."""
        stored = self._stored(offset)
        return None if stored is None else next(batches(stored.tobytes()))

    def _stored(self, offset: int) -> Slice | None:
        # Events that were delivered once are read again even if a transaction has begun meanwhile.
        log = self._log.written if self._unsynced else self._log
        start, tail = log.bounds(self._at)[:2]
        if not start <= offset < tail:
            return None
        stored = log.read(self._at, offset, 1)
        return stored if stored.length else None

    def _decoded(self, found: Iterable[memoryview], end: int) -> Iterator[Event]:
        wanted = self.offset
        for batch in found:
            yield from self._of(batch, wanted)
            self.offset = max(self.offset, read_header(batch).last_offset + 1)
        self.offset = max(self.offset, end)

    def _of(self, batch: memoryview, offset: int) -> Iterator[Event]:
        return events(batch, topic=self._topic, partition=self._at.number, from_offset=offset)


def offsets_of(batch: memoryview) -> Collection[int]:
    """Return the offsets of a batch's events; decodes the batch only if its offsets have gaps."""
    header = read_header(batch)
    if header.count == header.last_offset_delta + 1:
        return range(header.base_offset, header.last_offset + 1)
    return keys_of(batch)


def keys_of(batch: memoryview) -> dict[int, bytes | None]:
    """Return the offsets and keys of the events of a batch."""
    return {offset: key for offset, key, _, _ in keys(batch)}
