"""The events of a subscription, without waiting: blocking and async subscriptions both use it.

How this works: every partition that is read is a ``Source``. Those that may have something to
read stand in ``_ready``; they take turns, a stretch of about a megabyte each, whose events are
decoded one by one. A source at the tail leaves the queue and watches the log instead; the append
that wakes it puts it back and signals whoever waits. So idle partitions cost nothing, however
many there are, and nobody polls.

In a group, the sources are what the broker assigns. An event is finished when the consumer asks
for the next one: only then may its partition be committed or given up. The callbacks from the log
and the broker come from any thread: they take no lock, leave a note and signal.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from mainstem.broker.door import AT_ONCE, Door, Durable, Share
from mainstem.client.source import Source
from mainstem.client.wish import Beginning, Wish, places
from mainstem.core.errors import (
    Closed,
    Fenced,
    InvalidSetting,
    MainstemError,
    StorageFull,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event

_NOTHING: Iterator[Event] = iter(())


class Feed:
    """Events as they come, from all partitions that are to be read; thread-safe, never waits."""

    def __init__(
        self,
        broker: Door,
        wish: Wish,
        signal: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        wish.check()
        self._broker = broker
        self._wish = wish
        self._now_ms = now_ms
        self._signal = signal
        self._lock = threading.Lock()
        self._closed = False
        self._sources: dict[tuple[str, int], Source] = {}
        self._ready: deque[Source] = deque()
        self._source: Source | None = None
        self._events = _NOTHING
        self._given: dict[Source, None] = {}
        """Sources with events given out that the consumer has not finished."""
        self._moved: dict[Source, None] = {}
        """Sources whose cursors may have to be moved."""
        self._steady: Source | None = None
        """The source that is read, if it alone has given something out."""
        self._changed = False
        self._awaited_until_ms: int | None = None
        self._unwatch_topics: Callable[[], None] | None = None
        self._missed = 0
        self._untold: Exception | None = None
        """What went wrong behind events that were given out: raised when more is asked for."""
        self._auto = wish.group is not None and wish.commit == "auto"
        self._commit_at = time.monotonic() + wish.commit_s
        self._beginning = Beginning(broker, wish)
        if wish.group is not None:
            self._member = broker.join(wish.group, wish.topics, self._on_change)
        try:
            self._look_around()
        except BaseException:
            self.close(finished=False)
            raise

    # Asking for events: everything given out before is finished then.

    def take(self) -> Event | None:
        """Return the next event, None if there is none now."""
        with self._lock:
            if (
                self._steady is None
                or self._changed
                or (self._auto and time.monotonic() >= self._commit_at)
            ):
                return self._take_slowly()
            # What most events need, and no more.
            try:
                event = next(self._events, None)
            except MainstemError:
                self._step_back()
                raise
            if event is None:
                return self._take_slowly()
            source = self._steady
            source.finished = source.given
            source.given = event.offset + 1
            return event

    def take_many(self, limit: int) -> list[Event]:
        """Return the next events that are there now, at most ``limit``."""
        with self._lock:
            self._steady = None
            self._turn()
            taken: list[Event] = []
            try:
                while self._add_to(taken, limit):
                    pass
            except Exception as error:
                self._step_back()
                if not taken:
                    raise
                self._untold = error
            return taken

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more."""
        with self._lock:
            if self._closed:
                return True
            if self._wish.follow or self._changed or self._awaited_until_ms is not None:
                return False
            return not self._ready and self._source is None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def wait_s(self) -> float | None:
        """Return after how many seconds to ask again at the latest; None if only when signalled."""
        with self._lock:
            waits: list[float] = []
            if self._auto and self._positions(finished=True):
                waits.append(self._commit_at - time.monotonic())
            if self._awaited_until_ms is not None:
                waits.append((self._awaited_until_ms - self._now_ms()) / 1000)
            return max(0.0, min(waits)) if waits else None

    # What is known of it

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) read now."""
        with self._lock:
            return tuple(sorted(self._sources))

    @property
    def missed(self) -> int:
        """Events that were deleted before they could be read."""
        with self._lock:
            return self._missed + sum(source.missed for source in self._sources.values())

    # Finishing

    def commit(self) -> Durable:
        """Move the group's cursors to after the last event given out."""
        with self._lock:
            if self._wish.group is None:
                raise InvalidSetting("this subscription has no group, so it has no cursors")
            if self._closed:
                raise Closed("the subscription has been closed; what it finished was committed")
            return self._commit(self._positions(finished=False))

    def close(self, *, finished: bool) -> Durable:
        """Leave the group and let go; ``finished`` tells whether the events given out count."""
        with self._lock:
            if self._closed:
                return AT_ONCE
            self._closed = True
            if finished:
                self._finish()
            self._let_go()
            self._signal()
            return AT_ONCE if self._wish.group is None else self._leave()

    def abandon(self) -> None:
        """Be closed without telling anyone: this is a copy of the process that holds the log."""
        self._closed = True
        # A thread that is not in this copy may have held it.
        self._lock = threading.Lock()

    # Under the lock

    def _take_slowly(self) -> Event | None:
        self._turn()
        while True:
            source = self._source
            try:
                event = next(self._events, None)
            except MainstemError:
                self._step_back()
                raise
            if event is not None and source is not None:
                source.given = event.offset + 1
                self._given[source] = None
                if len(self._given) == 1 and self._awaited_until_ms is None:
                    self._steady = source
                return event
            if not self._next_stretch():
                return None

    def _add_to(self, taken: list[Event], limit: int) -> bool:
        """Take what is left of a stretch; False if that is enough, or nothing is behind it."""
        source, before = self._source, len(taken)
        try:
            taken += islice(self._events, limit - before)
        finally:
            # Also what came before damage.
            if len(taken) > before and source is not None:
                source.given = taken[-1].offset + 1
                self._given[source] = None
        return len(taken) < limit and self._next_stretch()

    def _leave(self) -> Durable:
        try:
            return self._commit(self._positions(finished=True)) if self._auto else AT_ONCE
        except (Fenced, Closed):
            # Too late to commit: what was not is read again.
            return AT_ONCE
        finally:
            self._member.leave()

    def _turn(self) -> None:
        """Do what is due now that everything given out before is finished."""
        if self._closed:
            return
        self._finish()
        untold, self._untold = self._untold, None
        if untold is not None:
            raise untold
        if self._auto and time.monotonic() >= self._commit_at:
            self._commit_if_owned(self._positions(finished=True))
        awaited = self._awaited_until_ms
        if awaited is not None and self._now_ms() >= awaited:
            self._changed = True
        if self._changed:
            self._look_around()

    def _finish(self) -> None:
        for source in self._given:
            source.finished = source.given
        self._moved |= self._given
        self._given.clear()

    def _next_stretch(self) -> bool:
        """Begin to read from the next source that has something; False if none has."""
        if self._source is not None:
            # It may end with what compaction took out: that is passed as well.
            self._source.given = self._source.offset
            self._given[self._source] = None
            self._stop_source()
        while self._ready and not self._closed:
            source = self._ready.popleft()
            if self._sources.get((source.topic, source.partition)) is not source:
                continue
            try:
                found = source.read(self._wish.fetch_bytes)
                if found is None and self._wish.follow:
                    source.watch(partial(self._on_more, source))
            except (UnknownTopic, UnknownPartition):
                self._lose(source)
                continue
            except BaseException:
                self._ready.appendleft(source)
                raise
            if found is not None:
                self._source, self._events = source, found
                self._ready.append(source)
                return True
        return False

    def _step_back(self) -> None:
        if self._source is not None:
            self._source.step_back()
            self._ready.appendleft(self._source)
            self._stop_source()

    def _stop_source(self) -> None:
        self._source, self._events, self._steady = None, _NOTHING, None

    def _add(self, source: Source) -> None:
        self._sources[source.topic, source.partition] = source
        self._ready.append(source)

    def _drop(self, source: Source) -> None:
        source.drop()
        self._missed += source.missed
        del self._sources[source.topic, source.partition]
        self._given.pop(source, None)
        self._moved.pop(source, None)
        if source is self._source:
            self._stop_source()

    def _lose(self, source: Source) -> None:
        """Stop reading a topic that is gone; tell the consumer if it was asked for by name."""
        self._drop(source)
        if self._wish.group is None:
            if source.topic in self._wish.topics:
                raise UnknownTopic(source.topic)
            # There may be another one of that name already.
            self._on_change()

    def _let_go(self) -> None:
        for source in self._sources.values():
            source.drop()
        if self._unwatch_topics is not None:
            self._unwatch_topics()
        self._ready.clear()
        self._stop_source()

    # Which partitions: all that match, or those that the group assigns

    def _look_around(self) -> None:
        self._changed = False
        if self._wish.group is None:
            self._find_topics()
        else:
            self._take_assignment()

    def _find_topics(self) -> None:
        """Read every partition that matches, also of topics that are created later."""
        if self._unwatch_topics is not None:
            self._unwatch_topics()
        if self._wish.follow:
            # Watched before it is looked at, or a topic in between would be overlooked.
            self._unwatch_topics = self._broker.watch_topics(self._on_change)
        chosen = self._wish.partitions
        for topic, partition in places(self._broker, self._wish.topics):
            if (topic, partition) not in self._sources and (chosen is None or partition in chosen):
                self._add(self._beginning.source(topic, partition, None))
        if chosen is not None:
            self._check_partitions(chosen)

    def _check_partitions(self, chosen: Iterable[int]) -> None:
        missing = set(chosen) - {number for _, number in self._sources}
        if missing:
            raise UnknownPartition(self._wish.topics[0], min(missing))

    def _take_assignment(self) -> None:
        """Give up what the group took away, and begin what it gave."""
        try:
            assignment = self._member.assignment()
        except Fenced:
            # Too slow to give something up: begin again as a new member, at the group's cursors.
            for source in list(self._sources.values()):
                self._drop(source)
            self._member = self._broker.join(self._member.group, self._wish.topics, self._on_change)
            self._changed = False
            assignment = self._member.assignment()
        kept, revoked = set(assignment.owned), set(assignment.revoked)
        given_up: list[Source] = []
        for source in list(self._sources.values()):
            if source.share not in kept:
                if source.share in revoked:
                    given_up.append(source)
                self._drop(source)
        if self._auto:
            self._commit_if_owned(_uncommitted(given_up))
        if revoked:
            self._member.release(revoked)
        self._awaited_until_ms = assignment.awaited_until_ms
        for share in assignment.owned:
            if (share.topic, share.partition) not in self._sources:
                self._add_share(share)

    def _add_share(self, share: Share) -> None:
        try:
            cursor = self._broker.cursor(self._member.group, share.topic, share.partition)
            at = None if cursor is None else cursor.offset
            source = self._beginning.source(share.topic, share.partition, at)
        except (UnknownTopic, UnknownPartition):
            return  # Deleted just now: the group will say so.
        source.share, source.committed = share, at
        if at is None:
            # Where a group begins is stored even if nothing is read: see ``latest``.
            self._moved[source] = None
        self._add(source)

    # Cursors

    def _positions(self, *, finished: bool) -> dict[Source, int]:
        """Return where the group's cursors should be and are not."""
        moved = self._moved | self._given
        places = {source: source.finished if finished else source.given for source in moved}
        return {source: at for source, at in places.items() if source.committed != at}

    def _commit(self, positions: dict[Source, int]) -> Durable:
        self._commit_at = time.monotonic() + self._wish.commit_s
        offsets = {source.share: at for source, at in positions.items() if source.share}
        durable = self._member.commit(offsets) if offsets else AT_ONCE
        for source, at in positions.items():
            source.committed = source.finished = at
            self._moved.pop(source, None)
        return durable

    def _commit_if_owned(self, positions: dict[Source, int]) -> None:
        try:
            self._commit(positions)
        except Fenced:
            # What was not committed is read again, by whoever owns it now.
            self._on_change()
        except StorageFull:
            # Readers go on while the disk is full; the next commit covers this one.
            return

    # From any thread, without the lock

    def _on_more(self, source: Source) -> None:
        self._ready.append(source)
        self._signal()

    def _on_change(self) -> None:
        self._changed = True
        self._signal()


def _uncommitted(sources: Sequence[Source]) -> dict[Source, int]:
    return {source: source.finished for source in sources if source.committed != source.finished}
