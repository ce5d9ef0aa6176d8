"""One partition as a subscription reads it: how far it has read, given out, and finished."""

from collections.abc import Callable, Iterator

from mainstem.broker.broker import Broker
from mainstem.broker.committed import Committed, visible
from mainstem.broker.groups import Share
from mainstem.core.batch import read_header
from mainstem.core.errors import OffsetOutOfRange, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.records import events


class Source:
    """A partition being read; used under its feed's lock."""

    __slots__ = (
        "_broker",
        "_seen",
        "_topic_id",
        "committed",
        "finished",
        "given",
        "limit",
        "missed",
        "offset",
        "partition",
        "share",
        "topic",
        "unwatch",
    )

    def __init__(
        self, broker: Broker, topic: str, partition: int, offset: int, limit: int | None
    ) -> None:
        self._broker = broker
        self._topic_id = broker.topic(topic).id
        self.topic = topic
        self.partition = partition
        self.offset = self.given = self.finished = offset
        """The next to read from the log, to be given out, and to be finished by the consumer."""
        self._seen = offset
        """The tail when there was nothing more to read."""
        self.limit = limit
        """Where to stop; None to follow the tail."""
        self.committed: int | None = None
        self.share: Share | None = None
        self.missed = 0
        self.unwatch: Callable[[], None] | None = None

    def read(self, max_bytes: int) -> Iterator[Event] | None:
        """Return the next events, decoded one by one as they are taken; None if there are none.

        Where the log no longer has them, go on with the first one it has, and count the rest.
        """
        if self._broker.topic(self.topic).id != self._topic_id:
            # Another topic of the same name: its offsets are not those of this one.
            raise UnknownTopic(self.topic)
        if self.limit is not None and self.offset >= self.limit:
            return None
        place = (self.topic, self.partition)
        try:
            tail = self._broker.bounds(*place).tail
            found = self._broker.transactions.read_committed(*place, self.offset, max_bytes)
        except OffsetOutOfRange as error:
            self._jump(error.start, error.tail)
            return self.read(max_bytes)
        if found.data.length:
            return self._decoded(found)
        # What is there belongs to a transaction that is still going on: its end is appended.
        self._seen = max(tail, self.offset)
        return None

    def step_back(self) -> None:
        """Read again from what was not given out, so that damage is never passed over."""
        self.offset = self.given

    def watch(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called once there is more to read, or the topic is gone."""
        self.unwatch = self._broker.watch(self.topic, self.partition, self._seen, wake)

    def drop(self) -> None:
        """Stop watching."""
        if self.unwatch is not None:
            self.unwatch()
            self.unwatch = None

    def _decoded(self, found: Committed) -> Iterator[Event]:
        view, position, wanted = memoryview(found.data.tobytes()), 0, self.offset
        kept = None
        if found.aborted:
            kept = {read_header(batch).base_offset for batch in visible(view, found.aborted)}
        while position < len(view):
            header = read_header(view, position)
            if self.limit is not None and header.base_offset >= self.limit:
                self.offset = self.limit
                return
            if kept is None or header.base_offset in kept:
                batch = view[position : position + header.size]
                place = (self.topic, self.partition)
                yield from events(batch, topic=place[0], partition=place[1], from_offset=wanted)
            self.offset = header.last_offset + 1
            position += header.size

    def _jump(self, start: int, tail: int) -> None:
        # Past the tail only if the log was truncated: nothing is there to be missed.
        place = min(max(self.offset, start), tail)
        self.missed += max(0, place - self.offset)
        self.offset = place
