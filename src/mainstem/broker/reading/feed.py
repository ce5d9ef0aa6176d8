"""A feed: reads the events of one partition from an offset on, without blocking.

How this works: a feed reads a chunk of the log (whole record batches as stored) and decodes the
events one by one. With read_committed it returns events of a transaction only after the commit, and
skips aborted ones. Compaction removes events, too. So offsets have gaps, and only ``offset`` tells
the position of a feed.
"""

from collections.abc import Iterator

from mainstem.broker.callbacks import Callback
from mainstem.broker.state import State
from mainstem.broker.transactions.read_committed import Committed, visible
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.batch import read_header
from mainstem.core.errors import MainstemError, UnknownPartition, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.records import events

MAX_EVENTS = 1_000
MAX_BYTES = 1024 * 1024
_READ_BYTES = 64 * 1024
"""The size of a chunk in bytes; a record batch that is larger is read whole."""
_MAX_CHUNKS = 16
"""Maximum number of chunks without a visible event that one call reads before it returns."""
_NOTHING: Iterator[Event] = iter(())


class Feed:
    """The events of one partition in order; for one thread at a time, never blocks."""

    __slots__ = (
        "_at",
        "_committed",
        "_events",
        "_seen",
        "_state",
        "_transactions",
        "offset",
        "partition",
        "topic",
    )

    def __init__(
        self,
        state: State,
        transactions: Transactions,
        topic: str,
        partition: int,
        offset: int,
        *,
        committed: bool,
    ) -> None:
        self._state = state
        self._transactions = transactions
        self._at = state.at(topic, partition)
        self._committed = committed
        self._events = _NOTHING
        self._seen = offset
        """The tail at the last read without events; ``watch`` waits for events from there on."""
        self.topic, self.partition, self.offset = topic, partition, offset
        """The offset of the next event; all visible events before it were returned."""

    def take(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> list[Event]:
        """Return the next events, at least one if there is one; an empty list if there is none.

        ``max_bytes`` limits keys and values, but not the first event. Raises OffsetOutOfRange if
        the log no longer holds ``offset``, because of retention or truncation. Then each call
        raises this until ``seek``; ``error.start`` is the offset of the first event still kept.
        Raises UnknownTopic once the topic is deleted, even if another topic has its name by now.
        """
        taken: list[Event] = []
        try:
            self._take_into(taken, max_events, max_bytes)
        except MainstemError:
            # Return the events collected so far; the next call raises the error again.
            self._events = _NOTHING
            if not taken:
                raise
        return taken

    def chunk(self, max_bytes: int = MAX_BYTES, end: int | None = None) -> Iterator[Event] | None:
        """Return the next events as an iterator that decodes them, None if there are none now.

        While the caller iterates, ``offset`` advances after every record batch. ``end``: return
        only events before this offset.
        """
        if self._state.topics.get(self.topic).id != self._at.topic_id:
            # The topic was deleted and created again, so the offsets mean something else.
            raise UnknownTopic(self.topic)
        if end is not None and self.offset >= end:
            return None
        try:
            tail = self._state.log.bounds(self._at).tail
            found = self._read(max_bytes)
        except UnknownPartition:
            raise UnknownTopic(self.topic) from None
        if found.data.length:
            self._seen = self.offset
            return self._decoded(found, end)
        # Events up to the tail belong to an ongoing transaction, whose marker moves the tail.
        self._seen = max(tail, self.offset)
        return None

    def seek(self, offset: int) -> None:
        """Continue reading at another offset."""
        self._events = _NOTHING
        self._seen = self.offset = offset

    def watch(self, wake: Callback) -> Callback:
        """Call ``wake`` once, when there may be more events or the topic is deleted.

        If that is already so, the call comes at once. It comes from any thread, and must not block.
        Returns a function to cancel the watch.
        """
        try:
            return self._state.log.watch(self._at, self._seen, wake)
        except UnknownPartition:
            raise UnknownTopic(self.topic) from None

    def _take_into(self, taken: list[Event], max_events: int, room: int) -> None:
        chunks = 0
        while len(taken) < max_events and room > 0:
            event = next(self._events, None)
            if event is not None:
                self._seen = self.offset = event.offset + 1
                room -= len(event.value or b"") + len(event.key or b"")
                taken.append(event)
                continue
            # An empty result does not prove that the tail was reached; if it was not, the watch
            # wakes at once.
            found = self.chunk(_READ_BYTES) if chunks < _MAX_CHUNKS else None
            if found is None:
                self._events = _NOTHING
                return
            self._events = found
            chunks += 1

    def _read(self, max_bytes: int) -> Committed:
        if self._committed:
            return self._transactions.read_committed_at(self._at, self.offset, max_bytes)
        return Committed(self._state.log.read(self._at, self.offset, max_bytes), self.offset)

    def _decoded(self, found: Committed, end: int | None) -> Iterator[Event]:
        view, position, wanted = memoryview(found.data.tobytes()), 0, self.offset
        kept = None
        if found.aborted:
            kept = {read_header(batch).base_offset for batch in visible(view, found.aborted)}
        topic, partition = self.topic, self.partition
        while position < len(view):
            header = read_header(view, position)
            if end is not None and header.base_offset >= end:
                self.offset = end
                return
            if kept is None or header.base_offset in kept:
                batch = view[position : position + header.size]
                yield from events(batch, topic=topic, partition=partition, from_offset=wanted)
            self.offset = header.last_offset + 1
            position += header.size
