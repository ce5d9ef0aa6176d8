"""Reads and encodes the events of a topic once for all clients that follow it.

How this works: a client follows a topic from a position on: the next offset in each partition. The
events after a position are read and encoded in portions, and a portion is cached under the position
where it begins. So clients at the same position share it: all clients at the tail, and those that
began together. A client that lags behind reads portions of its own. Per client, only its position
and the portion that is being sent to it are in memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mainstem.core.errors import MainstemError, OffsetOutOfRange
from mainstem.core.event import Event
from mainstem.heads.context import HeadContext
from mainstem.heads.http.filters import matching
from mainstem.heads.http.formats.event_json import event_json

if TYPE_CHECKING:
    from mainstem.broker.door import Feed

PORTION_EVENTS = 256
PORTION_BYTES = 32 * 1024
"""Maximum size of the keys and values in a portion; but a portion has at least one event. A client
that does not read takes about this much memory, besides the buffer of its connection.
"""
KEPT_BYTES = 8 * 1024 * 1024
"""Maximum size of the cached portions of one broadcast."""

Call = Callable[[], None]
Place = tuple[int, ...]
"""A position: the next offset in each partition of a broadcast."""


class Followed(NamedTuple):
    """What a client follows; clients that follow the same share a broadcast."""

    topic: str
    partitions: tuple[int, ...] | None
    """The partitions that are followed; None for all, also those that are added later."""
    key: str | None = None
    filters: tuple[str, ...] = ()


class Portion(NamedTuple):
    """Consecutive events of a topic, encoded as Server-Sent Events."""

    data: bytes
    events: int
    behind: Place
    """The position after the events."""
    missed: int = 0
    """How many offsets before the events were deleted by retention."""


class Broadcast:
    """The events of a topic for all clients that follow it; only the event loop may call it."""

    def __init__(self, context: HeadContext, followed: Followed) -> None:
        self._context, self._followed = context, followed
        self.error: MainstemError | None = None
        """The error that ended the broadcast, None while it goes on."""
        self._matches = matching(followed.key, followed.filters)
        self._feeds: list[Feed] = []
        self.partitions: list[int] = []
        self.waiting: dict[Call, None] = {}
        """Calls to make once when there may be more events, or ``error`` is set."""
        self._watches: dict[int, Call] = {}
        """Watches of the partitions that were read to their ends."""
        self._kept: OrderedDict[Place, Portion] = OrderedDict()
        self._kept_bytes = 0
        self._end: Place | None = None
        """The position of the end, if no events were found there; None once there may be more."""
        self._turn = 0
        self.look()

    def look(self) -> None:
        """Follow partitions that were added to the topic, from their start."""
        door, (topic, chosen, *_) = self._context.broker, self._followed
        try:
            numbers = range(len(door.topic(topic).partitions)) if chosen is None else chosen
            for number in numbers[len(self._feeds) :]:
                self._feeds.append(door.follow(topic, number, door.bounds(topic, number).start))
                self.partitions.append(number)
        except MainstemError as error:
            self._fail(error)
        self._tell()

    def portion(self, place: Place) -> Portion | None:
        """Return the portion after a position, None if there are no events after it yet.

        Raises the error that ended the broadcast, such as UnknownTopic for a deleted topic.
        """
        if self.error is not None:
            raise self.error
        if place == self._end:
            return None
        kept = self._kept.get(place)
        if kept is not None:
            return kept
        whole = place + (0,) * (len(self._feeds) - len(place))
        found = self._read(whole)
        if found is not None:
            self._keep(place, found)
        return found

    def when_more(self, call: Call) -> None:
        """Call ``call`` once, when events may have been added, or the broadcast has failed."""
        self.waiting[call] = None

    def written(self, place: Place) -> str:
        """Return a position as text, such as ``0:12,1:5``."""
        return ",".join(f"{n}:{at}" for n, at in zip(self.partitions, place, strict=False))

    def close(self) -> None:
        """Stop watching the topic."""
        watches, self._watches = self._watches, {}
        for cancel in watches.values():
            cancel()

    def _read(self, place: Place) -> Portion | None:
        for _ in self._feeds:
            self._turn = (self._turn + 1) % len(self._feeds)
            at = self._turn
            try:
                events, missed = self._take(at, place[at])
            except MainstemError as error:
                self._fail(error)
                raise
            offset = self._feeds[at].offset
            if events or offset != place[at]:
                behind = (*place[:at], offset, *place[at + 1 :])
                return self._encoded(events, behind, at, missed)
            if at not in self._watches:
                # Set at once, so that no append after the end that was just read is missed.
                self._watches[at] = self._feeds[at].watch(self._waker(at))
        self._end = place
        return None

    def _waker(self, at: int) -> Call:
        def woken() -> None:
            self._watches.pop(at, None)
            self._tell()

        return lambda: self._context.on_loop(woken)

    def _take(self, at: int, offset: int) -> tuple[list[Event], int]:
        feed = self._feeds[at]
        if feed.offset != offset:
            feed.seek(offset)
        try:
            return feed.take(PORTION_EVENTS, PORTION_BYTES), 0
        except OffsetOutOfRange as error:
            if error.offset >= error.start:
                raise
            feed.seek(error.start)
            return feed.take(PORTION_EVENTS, PORTION_BYTES), error.start - error.offset

    def _encoded(self, events: Sequence[Event], behind: Place, at: int, missed: int) -> Portion:
        if self._matches is not None:
            events = [event for event in events if self._matches(event)]
        texts = [f"{n}:{place}" for n, place in zip(self.partitions, behind, strict=True)]
        before = ",".join([*texts[:at], f"{self.partitions[at]}:"]).encode()
        after = ",".join(["", *texts[at + 1 :]]).encode()
        data = b"".join(
            [
                b"id: %b%d%b\ndata: %b\n\n" % (before, each.offset + 1, after, event_json(each))
                for each in events
            ]
        )
        return Portion(data, len(events), behind, missed)

    def _keep(self, place: Place, portion: Portion) -> None:
        self._kept[place] = portion
        self._kept_bytes += len(portion.data)
        while self._kept_bytes > KEPT_BYTES or len(self._kept) > PORTION_EVENTS:
            _, old = self._kept.popitem(last=False)
            self._kept_bytes -= len(old.data)

    def _fail(self, error: MainstemError) -> None:
        self.error = error
        self._context.on_loop(self._tell)

    def _tell(self) -> None:
        self._end = None
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            call()
