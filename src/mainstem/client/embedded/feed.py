"""The source of events for a subscription of a log in this process; never waits.

Blocking and async subscriptions both read from it, and do the waiting.

How this works: every partition has a ``PartitionReader``. Those that may have events are in
``_ready``; one after another returns a chunk of about a megabyte, whose events are decoded one by
one. A reader at the tail leaves ``_ready`` and watches the log instead; the next append puts it
back and wakes the waiting consumer. So idle partitions cost nothing, however many there are, and
nothing is polled.

In a group, the broker assigns the partitions. An event is finished when the consumer requests the
next one: only then may its offset be committed, or its partition be released. The log and the
broker call back in any thread: these callbacks take no lock, set a flag and wake the consumer.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from mainstem.broker.door import AT_ONCE, AssignedPartition, Door, Durable
from mainstem.client.embedded.partition_reader import PartitionReader
from mainstem.client.embedded.start_positions import StartOffsets, partitions_of
from mainstem.client.subscription import SubscriptionOptions
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
    """Reads the events of all partitions of a subscription; thread-safe, never waits."""

    def __init__(
        self,
        broker: Door,
        options: SubscriptionOptions,
        signal: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        options.check()
        self._broker = broker
        self._options = options
        self._now_ms, self._signal = now_ms, signal
        self._lock = threading.Lock()
        self._closed = False
        self._readers: dict[tuple[str, int], PartitionReader] = {}
        self._ready: deque[PartitionReader] = deque()
        self._reader: PartitionReader | None = None
        self._events = _NOTHING
        self._given: dict[PartitionReader, None] = {}
        """Readers that returned events which the consumer has not finished."""
        self._moved: dict[PartitionReader, None] = {}
        """Readers whose offset may have to be committed."""
        self._steady: PartitionReader | None = None
        """The current reader, if it alone has returned unfinished events."""
        self._changed = False
        self._awaited_until_ms: int | None = None
        self._unwatch_topics: Callable[[], None] | None = None
        self._missed = 0
        self._untold: Exception | None = None
        """An error that occurred after events were returned; the next request raises it."""
        self._auto = options.group is not None and options.commit == "auto"
        self._commit_at = time.monotonic() + options.commit_s
        self._starts = StartOffsets(broker, options)
        if options.group is not None:
            self._member = broker.join(options.group, options.topics, self._on_change)
        try:
            self._look_around()
        except BaseException:
            self.close(finished=False)
            raise

    # Returning events, which finishes all events returned before

    def take(self) -> Event | None:
        """Return the next event, or None if there is none now."""
        with self._lock:
            if (
                self._steady is None
                or self._changed
                or (self._auto and time.monotonic() >= self._commit_at)
            ):
                return self._take_slowly()
            # The fast path, which most events take.
            try:
                event = next(self._events, None)
            except MainstemError:
                self._step_back()
                raise
            if event is None:
                return self._take_slowly()
            reader = self._steady
            reader.finished = reader.given
            reader.given = event.offset + 1
            return event

    def take_many(self, limit: int) -> list[Event]:
        """Return the available events, at most ``limit``."""
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
        """Whether no more events will come."""
        with self._lock:
            if self._closed:
                return True
            if self._options.follow or self._changed or self._awaited_until_ms is not None:
                return False
            return not self._ready and self._reader is None

    @property
    def closed(self) -> bool:
        """Whether the feed was closed."""
        return self._closed

    def wait_s(self, left_s: float | None = None) -> float | None:
        """Return how many seconds to wait before the next call; None: until the signal.

        ``left_s`` is what remains of the consumer's own timeout.
        """
        with self._lock:
            waits = [] if left_s is None else [left_s]
            if self._auto and self._positions(finished=True):
                waits.append(self._commit_at - time.monotonic())
            if self._awaited_until_ms is not None:
                waits.append((self._awaited_until_ms - self._now_ms()) / 1000)
            return max(0.0, min(waits)) if waits else None

    # State

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) that are being read."""
        with self._lock:
            return tuple(sorted(self._readers))

    @property
    def missed(self) -> int:
        """Number of events that were deleted before they could be read."""
        with self._lock:
            return self._missed + sum(reader.missed for reader in self._readers.values())

    # Finishing

    def commit(self) -> Durable:
        """Commit the group's offsets up to the last event returned; raises Closed when closed."""
        with self._lock:
            if self._options.group is None:
                raise InvalidSetting("this subscription has no group, so it has no cursors")
            if self._closed:
                raise Closed("the subscription has been closed; what it finished was committed")
            return self._commit(self._positions(finished=False))

    def close(self, *, finished: bool) -> Durable:
        """Leave the group; with ``finished``, the events returned last count as processed.

        The result is durable when the offsets are committed.
        """
        with self._lock:
            if self._closed:
                return AT_ONCE
            self._closed = True
            if finished:
                self._finish()
            self._let_go()
            self._signal()
            return AT_ONCE if self._options.group is None else self._leave()

    def abandon(self) -> None:
        """Close in the child process after a fork, without touching the log."""
        self._closed = True
        # The lock may be held by a thread that does not exist in the child process.
        self._lock = threading.Lock()

    # Under the lock

    def _take_slowly(self) -> Event | None:
        self._turn()
        while True:
            reader = self._reader
            try:
                event = next(self._events, None)
            except MainstemError:
                self._step_back()
                raise
            if event is not None and reader is not None:
                reader.given = event.offset + 1
                self._given[reader] = None
                if len(self._given) == 1 and self._awaited_until_ms is None:
                    self._steady = reader
                return event
            if not self._next_stretch():
                return None

    def _add_to(self, taken: list[Event], limit: int) -> bool:
        """Append the rest of the current chunk to ``taken``; return whether to call this again.

        That is False at the limit, or if no other chunk follows.
        """
        reader, before = self._reader, len(taken)
        try:
            taken += islice(self._events, limit - before)
        finally:
            # Events before damage count as returned, too.
            if len(taken) > before and reader is not None:
                reader.given = taken[-1].offset + 1
                self._given[reader] = None
        return len(taken) < limit and self._next_stretch()

    def _leave(self) -> Durable:
        try:
            return self._commit(self._positions(finished=True)) if self._auto else AT_ONCE
        except (Fenced, Closed):
            # The group has given the partitions away: another member reads the uncommitted events
            # again.
            return AT_ONCE
        finally:
            self._member.leave()

    def _turn(self) -> None:
        """Mark all returned events as finished; commit and release partitions if due."""
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
        for reader in self._given:
            reader.finished = reader.given
        self._moved |= self._given
        self._given.clear()

    def _next_stretch(self) -> bool:
        """Start with a chunk of the next reader that has events; return False if none has."""
        if self._reader is not None:
            # A chunk may end with offsets that compaction removed: these count as read.
            self._reader.given = self._reader.offset
            self._given[self._reader] = None
            self._stop_source()
        while self._ready and not self._closed:
            reader = self._ready.popleft()
            if self._readers.get((reader.topic, reader.partition)) is not reader:
                continue
            try:
                found = reader.read(self._options.fetch_bytes)
                if found is None and self._options.follow:
                    reader.watch(partial(self._on_more, reader))
            except (UnknownTopic, UnknownPartition):
                self._lose(reader)
                continue
            except BaseException:
                self._ready.appendleft(reader)
                raise
            if found is not None:
                self._reader, self._events = reader, found
                self._ready.append(reader)
                return True
        return False

    def _step_back(self) -> None:
        if self._reader is not None:
            self._reader.step_back()
            self._ready.appendleft(self._reader)
            self._stop_source()

    def _stop_source(self) -> None:
        self._reader, self._events, self._steady = None, _NOTHING, None

    def _add(self, reader: PartitionReader) -> None:
        self._readers[reader.topic, reader.partition] = reader
        self._ready.append(reader)

    def _drop(self, reader: PartitionReader) -> None:
        reader.drop()
        self._missed += reader.missed
        del self._readers[reader.topic, reader.partition]
        self._given.pop(reader, None)
        self._moved.pop(reader, None)
        if reader is self._reader:
            self._stop_source()

    def _lose(self, reader: PartitionReader) -> None:
        """Stop reading a partition whose topic was deleted.

        Raises UnknownTopic if the topic was subscribed by name, without a group.
        """
        self._drop(reader)
        if self._options.group is None:
            if reader.topic in self._options.topics:
                raise UnknownTopic(reader.topic)
            # There may be a new topic of that name already.
            self._on_change()

    def _let_go(self) -> None:
        for reader in self._readers.values():
            reader.drop()
        if self._unwatch_topics is not None:
            self._unwatch_topics()
        self._ready.clear()
        self._stop_source()

    # Partitions: all that match, or those that the group assigns

    def _look_around(self) -> None:
        self._changed = False
        if self._options.group is None:
            self._find_topics()
        else:
            self._take_assignment()

    def _find_topics(self) -> None:
        """Start reading every matching partition; while following, watch for new topics, too."""
        if self._unwatch_topics is not None:
            self._unwatch_topics()
        if self._options.follow:
            # Watch before listing, or a topic created in between would be missed.
            self._unwatch_topics = self._broker.watch_topics(self._on_change)
        chosen = self._options.partitions
        for topic, partition in partitions_of(self._broker, self._options.topics):
            if (topic, partition) not in self._readers and (chosen is None or partition in chosen):
                self._add(self._starts.reader(topic, partition, None))
        if chosen is not None:
            self._check_partitions(chosen)

    def _check_partitions(self, chosen: Iterable[int]) -> None:
        missing = set(chosen) - {number for _, number in self._readers}
        if missing:
            raise UnknownPartition(self._options.topics[0], min(missing))

    def _take_assignment(self) -> None:
        """Release the partitions that the group revoked, and start reading new ones."""
        try:
            assignment = self._member.assignment()
        except Fenced:
            # The broker fenced this member because it released a partition too late: join again as
            # a new member, and read from the committed offsets.
            for reader in list(self._readers.values()):
                self._drop(reader)
            self._member = self._broker.join(
                self._member.group, self._options.topics, self._on_change
            )
            self._changed = False
            assignment = self._member.assignment()
        kept, revoked = set(assignment.owned), set(assignment.revoked)
        given_up: list[PartitionReader] = []
        for reader in list(self._readers.values()):
            if reader.share not in kept:
                if reader.share in revoked:
                    given_up.append(reader)
                self._drop(reader)
        if self._auto:
            self._commit_if_owned(_uncommitted(given_up))
        if revoked:
            self._member.release(revoked)
        self._awaited_until_ms = assignment.awaited_until_ms
        for share in assignment.owned:
            if (share.topic, share.partition) not in self._readers:
                self._add_share(share)

    def _add_share(self, share: AssignedPartition) -> None:
        try:
            cursor = self._broker.cursor(self._member.group, share.topic, share.partition)
            at = None if cursor is None else cursor.offset
            reader = self._starts.reader(share.topic, share.partition, at)
        except (UnknownTopic, UnknownPartition):
            return  # Deleted just now; the group will report it.
        reader.share, reader.committed = share, at
        if at is None:
            # Commit the start even if nothing is read, so that ``latest`` still means this moment
            # after a restart.
            self._moved[reader] = None
        self._add(reader)

    # Cursors

    def _positions(self, *, finished: bool) -> dict[PartitionReader, int]:
        """Return the offset to commit for each partition, if it differs from the committed one.

        With ``finished``, only up to finished events; otherwise up to the last one returned.
        """
        moved = self._moved | self._given
        places = {reader: reader.finished if finished else reader.given for reader in moved}
        return {reader: at for reader, at in places.items() if reader.committed != at}

    def _commit(self, positions: dict[PartitionReader, int]) -> Durable:
        self._commit_at = time.monotonic() + self._options.commit_s
        offsets = {reader.share: at for reader, at in positions.items() if reader.share}
        durable = self._member.commit(offsets) if offsets else AT_ONCE
        for reader, at in positions.items():
            reader.committed = reader.finished = at
            self._moved.pop(reader, None)
        return durable

    def _commit_if_owned(self, positions: dict[PartitionReader, int]) -> None:
        try:
            self._commit(positions)
        except Fenced:
            # The partition's new owner reads the uncommitted events again.
            self._on_change()
        except StorageFull:
            # If the disk is full, reading continues; the next commit includes this one.
            return

    # From any thread, without the lock

    def _on_more(self, reader: PartitionReader) -> None:
        self._ready.append(reader)
        self._signal()

    def _on_change(self) -> None:
        self._changed = True
        self._signal()


def _uncommitted(readers: Sequence[PartitionReader]) -> dict[PartitionReader, int]:
    return {reader: reader.finished for reader in readers if reader.committed != reader.finished}
