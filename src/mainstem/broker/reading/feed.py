"""Following one partition: the next events from an offset on, without waiting for any.

How this works: a feed reads a stretch of the log, whole record batches as they are stored, and
decodes their events one by one. Readers of committed events see nothing of a transaction before it
has committed, and nothing at all if it aborts; events that compaction took out are passed over. So
offsets have gaps, and only ``offset`` tells where a feed stands.
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
"""How much is read at once; a record batch that is larger is read whole."""
_MAX_STRETCHES = 16
"""How many stretches without a single event are passed over before others have their turn."""
_NOTHING: Iterator[Event] = iter(())


class Feed:
    """The events of one partition in order; for one thread at a time, never waits."""

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
        """The tail when there was nothing more to read."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """The next one to be taken; everything before was taken, or was not to be seen."""

    def take(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> list[Event]:
        """Return the next events, none if there are none now; the first one whatever its size.

        Bytes are those of keys and values. Raises OffsetOutOfRange if the log no longer has what
        stands at ``offset``: retention was faster, or its end was taken back. The feed stays where
        it is until ``seek`` moves it: to ``error.start`` to go on with the first event kept. Raises
        UnknownTopic once the topic is deleted, also if another one has its name now.
        """
        taken: list[Event] = []
        try:
            self._take_into(taken, max_events, max_bytes)
        except MainstemError:
            # What was taken is given; the next call meets the error again.
            self._events = _NOTHING
            if not taken:
                raise
        return taken

    def chunk(self, max_bytes: int = MAX_BYTES, end: int | None = None) -> Iterator[Event] | None:
        """Return the next events as an iterator that decodes them, None if there are none now.

        ``offset`` moves with every record batch that is through, and stops at ``end``.
        """
        if self._state.topics.get(self.topic).id != self._at.topic_id:
            # Another topic of the same name: its offsets are not those of this one.
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
        # What is there belongs to a transaction that is still going on: its end is appended.
        self._seen = max(tail, self.offset)
        return None

    def seek(self, offset: int) -> None:
        """Go on from another offset."""
        self._events = _NOTHING
        self._seen = self.offset = offset

    def watch(self, wake: Callback) -> Callback:
        """Call ``wake`` once there may be more to take, or the topic is deleted.

        At once if that is so already. It is called from any thread, and must not block. Returns a
        function that takes the watch back.
        """
        try:
            return self._state.log.watch(self._at, self._seen, wake)
        except UnknownPartition:
            raise UnknownTopic(self.topic) from None

    def _take_into(self, taken: list[Event], max_events: int, room: int) -> None:
        stretches = 0
        while len(taken) < max_events and room > 0:
            event = next(self._events, None)
            if event is not None:
                self._seen = self.offset = event.offset + 1
                room -= len(event.value or b"") + len(event.key or b"")
                taken.append(event)
                continue
            # An empty answer does not mean the tail: whoever watches then is woken at once.
            found = self.chunk(_READ_BYTES) if stretches < _MAX_STRETCHES else None
            if found is None:
                self._events = _NOTHING
                return
            self._events = found
            stretches += 1

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
