"""What a subscription reads of a partition: fresh events in order, and old ones again by offset."""

from collections.abc import Iterable, Iterator

from mainstem.broker.committed import Committed, visible
from mainstem.broker.transactions import Transactions
from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import events
from mainstem.log.port import Log, PartitionId

_READ_BYTES = 64 * 1024


class Backlog:
    """A partition's committed events; what is in memory is one stretch of the log at most."""

    def __init__(
        self, log: Log, transactions: Transactions, topic: str, at: PartitionId, offset: int
    ) -> None:
        self._log = log
        self._transactions = transactions
        self._topic = topic
        self._at = at
        self._events: Iterator[Event] = iter(())
        self.offset = offset
        """Everything before has been returned, or was no event of a committed transaction."""

    def begin(self, offset: int) -> None:
        """Go on from another offset."""
        self._events = iter(())
        self.offset = offset

    def take(self) -> Event | None:
        """Return the next event; None at the end of what is committed. Raises OffsetOutOfRange."""
        while True:
            event = next(self._events, None)
            if event is not None:
                return event
            found = self._transactions.read_committed_at(self._at, self.offset, _READ_BYTES)
            if not found.data.length:
                return None
            self._events = self._decoded(found)

    def again(self, offsets: Iterable[int]) -> dict[int, Event]:
        """Return events that were taken before, those that are still there."""
        found: dict[int, Event] = {}
        batch: dict[int, Event] = {}
        for offset in sorted(offsets):
            if offset not in batch:
                batch = self.batch_at(offset)
            if offset in batch:
                found[offset] = batch[offset]
        return found

    def batch_at(self, offset: int) -> dict[int, Event]:
        """Return the events of the batch that holds an offset, from that on; none if it is gone."""
        start, tail = self._log.bounds(self._at)[:2]
        if not start <= offset < tail:
            return {}
        read = self._log.read(self._at, offset, 1).tobytes()
        batch = next(batches(read), None)
        return {} if batch is None else {each.offset: each for each in self._of(batch, offset)}

    def _decoded(self, found: Committed) -> Iterator[Event]:
        view, wanted, position = memoryview(found.data.tobytes()), self.offset, 0
        kept = None
        if found.aborted:
            kept = {read_header(batch).base_offset for batch in visible(view, found.aborted)}
        while position < len(view):
            header = read_header(view, position)
            if kept is None or header.base_offset in kept:
                yield from self._of(view[position : position + header.size], wanted)
            self.offset = max(self.offset, header.last_offset + 1)
            position += header.size

    def _of(self, batch: memoryview, offset: int) -> Iterator[Event]:
        return events(batch, topic=self._topic, partition=self._at.number, from_offset=offset)
