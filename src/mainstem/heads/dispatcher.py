"""Decides which of the consumers that wait at a queue takes next; one for all heads of a node.

How this works: a head says how many events a consumer may be given (its credit: prefetch, link
credit, max in flight), and how it takes them (``take``). A consumer is ready while it has credit,
its session has, and it is not paused. Whenever a queue may have something, its ready consumers are
asked in turns, those of the highest priority first, in portions that grow while there is more: a
few events are spread evenly, many are handed out quickly. One that takes nothing has found the
queue dry, and with it all that want the same partitions: so a single event makes no crowd look.

A queue has two watches, however many consumers wait. One tells of what is given back, and of the
end of the queue; it is renewed before anybody is asked, so that nothing is missed meanwhile. The
other tells of what is appended; it is set when the queue is dry, since only then the ends of the
partitions are known. A turn is bounded: then others on the event loop go first.

Everything happens in the thread of the event loop, except that watches are called from any thread.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Protocol

from mainstem.core.errors import MainstemError

_logger = logging.getLogger("mainstem.heads")

TURN_EVENTS = 1000
"""So many events are handed out before others on the loop go first."""
TURN_S = 0.005
"""So long may a turn take."""
LARGEST_PORTION = 64
"""So many events at most go to a consumer while others are ready."""

Call = Callable[[], None]
Take = Callable[[int], int]
"""Takes up to so many events from the queue, and returns how many; raises MainstemError."""
Gone = Callable[[MainstemError], None]
"""Is told that a consumer is closed, and why: its queue was deleted, or taking has failed."""


class Watch(Protocol):
    """Calls once when a queue may have something; see ``Subscriptions.watch``."""

    def __call__(
        self, topic: str, name: str, wake: Call, partitions: Collection[int] | None
    ) -> Call:
        """Return what takes the watch back; raises UnknownTopic, UnknownQueue."""


class SessionCredit:
    """How many events may be handed out to all consumers of a session together."""

    __slots__ = ("consumers", "credit")

    def __init__(self, credit: int | None) -> None:
        self.credit = credit
        """None is no limit."""
        self.consumers: OrderedDict[Consumer, None] = OrderedDict()
        """Those whose turn is longest ago come first."""

    def add_credit(self, count: int) -> None:
        """Allow so many more."""
        if self.credit is None or count <= 0:
            return
        self.credit += count
        self._line_up()

    def limit(self, credit: int | None) -> None:
        """Allow so many from now on; below 0, so many must be given back first."""
        self.credit = credit
        self._line_up()

    def _line_up(self) -> None:
        for consumer in list(self.consumers):
            consumer.line_up()


class Consumer:
    """One who takes events from a queue as far as its credit goes."""

    __slots__ = (
        "_queue",
        "credit",
        "gone",
        "is_closed",
        "is_paused",
        "partitions",
        "priority",
        "session",
        "take",
    )

    def __init__(
        self,
        queue: "_Queue",
        take: Take,
        gone: Gone,
        credit: int | None,
        priority: int,
        session: SessionCredit | None,
        partitions: frozenset[int] | None,
    ) -> None:
        self._queue = queue
        self.take = take
        self.gone = gone
        self.credit = credit
        """How many events it may still be given; None is no limit."""
        self.priority = priority
        self.session = session
        self.partitions = partitions
        """Those that it takes from; None is all."""
        self.is_paused = self.is_closed = False

    @property
    def allowed(self) -> int | None:
        """How many events it may be given now; None is no limit."""
        if self.is_closed or self.is_paused:
            return 0
        shared = None if self.session is None else self.session.credit
        if shared is None:
            return self.credit
        shared = max(0, shared)
        return shared if self.credit is None else min(self.credit, shared)

    def add_credit(self, count: int) -> None:
        """Allow so many more."""
        if self.credit is not None and count > 0:
            self.credit += count
            self.line_up()

    def pause(self) -> None:
        """Be given nothing until ``resume``, as the peer must read first."""
        self.is_paused = True

    def resume(self) -> None:
        """Be given events again."""
        if self.is_paused:
            self.is_paused = False
            self.line_up()

    def close(self) -> None:
        """Be given nothing any more; what was given stays as it is."""
        if not self.is_closed:
            self.is_closed = True
            if self.session is not None:
                self.session.consumers.pop(self, None)
            self._queue.remove(self)

    def line_up(self) -> None:
        """Wait for a turn, if there is credit and this does not wait already."""
        if self.allowed != 0:
            self._queue.line_up(self)

    def given(self, count: int) -> None:
        """Count what was taken."""
        if self.credit is not None:
            self.credit -= count
        if self.session is not None:
            if self.session.credit is not None:
                self.session.credit -= count
            if self in self.session.consumers:
                self.session.consumers.move_to_end(self)


class Dispatcher:
    """Hands events of queues to consumers by their credit; used in the thread of the loop."""

    def __init__(
        self,
        watch: Watch,
        soon: Callable[[Call], None],
        later: Callable[[Call], None],
        clock: Callable[[], float],
    ) -> None:
        """``soon`` makes a call on the loop, from any thread; ``later`` once others had a turn.

        ``clock``: seconds, by which the length of a turn is limited.
        """
        self.watch = watch
        self.soon = soon
        self.later = later
        self.clock = clock
        self.is_stopped = False
        self._queues: dict[tuple[str, str], _Queue] = {}

    def session(self, credit: int | None = None) -> SessionCredit:
        """Begin a session, whose consumers share a credit; None is no limit."""
        return SessionCredit(credit)

    def consume(
        self,
        topic: str,
        queue: str,
        take: Take,
        *,
        gone: Gone,
        credit: int | None = 0,
        priority: int = 0,
        session: SessionCredit | None = None,
        partitions: Collection[int] | None = None,
    ) -> Consumer:
        """Let a consumer wait for events of a queue; higher priorities are served first.

        Nothing is taken before this returns. ``gone`` may be told soon that there is no such queue.
        """
        found = self._queues.get((topic, queue))
        if found is None:
            found = self._queues[topic, queue] = _Queue(self, topic, queue)
        chosen = None if partitions is None else frozenset(partitions)
        consumer = Consumer(found, take, gone, credit, priority, session, chosen)
        found.consumers[consumer] = None
        if session is not None:
            session.consumers[consumer] = None
        if consumer.allowed == 0:
            # Even who takes nothing yet is told if there is no such queue.
            found.begin()
        else:
            consumer.line_up()
        return consumer

    def go_first(self, topic: str, queue: str) -> bool:
        """Serve those who wait already; return whether nothing is left to them.

        For whoever takes from a queue without waiting there.
        """
        found = self._queues.get((topic, queue))
        return found is None or found.go_first()

    def stop(self) -> None:
        """Hand out nothing more, as the server stops."""
        self.is_stopped = True

    def forget(self, queue: "_Queue") -> None:
        """Forget a queue of which nobody takes any more."""
        if self._queues.get((queue.topic, queue.name)) is queue:
            del self._queues[queue.topic, queue.name]

    def __len__(self) -> int:
        return len(self._queues)


class _Queue:
    """A queue with those who wait for its events."""

    def __init__(self, dispatcher: Dispatcher, topic: str, name: str) -> None:
        self._dispatcher = dispatcher
        self.topic = topic
        self.name = name
        self.consumers: dict[Consumer, None] = {}
        self._ready: dict[int, OrderedDict[Consumer, None]] = {}
        """By priority, in the order of their turns; some may have become unready meanwhile."""
        self._portion = 1
        self._is_due = self._in_turn = False
        """Whether there will be a turn; and whether there is one now."""
        self._is_dry = False
        """Whether ``_watched`` has nothing, and what is appended there is told."""
        self._watched: frozenset[int] | None = frozenset()
        self._end_tails: Call = _nothing
        self._end_returns: Call = _nothing
        self._has_returned = True
        """Whether the watch of what is given back was called, or not set yet."""

    # Who waits

    def line_up(self, consumer: Consumer) -> None:
        """Let a ready consumer have turns."""
        line = self._ready.setdefault(consumer.priority, OrderedDict())
        if consumer not in line:
            line[consumer] = None
            if not self._is_dry or not _covers(self._watched, consumer.partitions):
                self._is_dry = False
                self.wake()

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer wait no longer."""
        self.consumers.pop(consumer, None)
        self._unready(consumer)
        if not self.consumers:
            self._stop_watching()
            self._dispatcher.forget(self)

    def _unready(self, consumer: Consumer) -> None:
        line = self._ready.get(consumer.priority)
        if line is not None:
            line.pop(consumer, None)
            if not line:
                del self._ready[consumer.priority]

    # When there may be something

    def begin(self) -> None:
        """See soon whether there is such a queue, if that is not known."""
        if self._has_returned:
            self.wake()

    def wake(self) -> None:
        """Have a turn soon; called from any thread."""
        if not self._is_due:
            self._is_due = True
            self._dispatcher.soon(self._turn)

    def go_first(self) -> bool:
        """Have the turn now that is due; return whether all who wait have found it dry."""
        if self._is_due and not self._in_turn:
            self._turn()
        return not self._is_due or not self._ready

    def _returned(self) -> None:
        """Be told, from any thread, that something was given back, or that the queue has ended."""
        self._has_returned = True
        self._is_dry = False
        self.wake()

    def _grown(self) -> None:
        """Be told, from any thread, that something was appended."""
        self._is_dry = False
        self.wake()

    # Turns

    def _turn(self) -> None:
        """Hand out what there is, within bounds, and watch for more."""
        if not self._is_due or self._dispatcher.is_stopped or not self.consumers:
            self._is_due = False
            return
        self._is_due, self._in_turn = False, True
        try:
            if not self._watch_returns():
                return
            self._stop_tails()
            if self._hand_out():
                self._portion = 1
                if self.consumers:
                    self._watch_tails()
            elif not self._is_due:
                # There is more: after others.
                self._is_due = True
                self._dispatcher.later(self._turn)
        finally:
            self._in_turn = False

    def _hand_out(self) -> bool:
        """Ask those who are ready until nobody finds any more; False if the turn ended before."""
        dispatcher = self._dispatcher
        until, left = dispatcher.clock() + TURN_S, TURN_EVENTS
        dry: set[int] = set()
        for priority in sorted(self._ready, reverse=True):
            has_more = True
            while has_more:
                has_more = False
                for consumer in list(self._ready.get(priority, ())):
                    if consumer.allowed == 0:
                        self._unready(consumer)
                        continue
                    if consumer.partitions is not None and consumer.partitions <= dry:
                        continue
                    if left <= 0 or dispatcher.clock() > until:
                        return False
                    count = self._ask(consumer, left)
                    if count:
                        left -= count
                        has_more = True
                    elif consumer.allowed == 0:
                        # Closed or paused: that tells nothing of the queue.
                        continue
                    elif consumer.partitions is None:
                        return True
                    else:
                        dry |= consumer.partitions
                self._portion = min(2 * self._portion, LARGEST_PORTION)
        return True

    def _ask(self, consumer: Consumer, left: int) -> int:
        """Let a consumer take its portion; return how many it took."""
        allowed = consumer.allowed
        limit = left if allowed is None else min(allowed, left)
        line = self._ready[consumer.priority]
        if len(line) > 1:
            limit = min(limit, self._portion)
        try:
            count = consumer.take(limit)
        except MainstemError as error:
            self._end(consumer, error)
            return 0
        except Exception as error:
            # A bug in one head: those who wait for the same queue go on.
            _logger.error("a consumer of queue %r failed", self.name, exc_info=error)
            self._end(consumer, MainstemError(f"taking from queue {self.name!r} has failed"))
            return 0
        consumer.given(count)
        if count and consumer in line:
            # Who got nothing keeps its place: it is the first to be asked next time.
            line.move_to_end(consumer)
        return count

    def _end(self, consumer: Consumer, error: MainstemError) -> None:
        if not consumer.is_closed:
            consumer.close()
            consumer.gone(error)

    # Watches

    def _watch_returns(self) -> bool:
        """Be told of what is given back, and of the queue's end; False if there is no queue."""
        if self._has_returned:
            # Before the watch is set, as it may be called at once.
            self._has_returned = False
            try:
                watch = self._dispatcher.watch
                self._end_returns = watch(self.topic, self.name, self._returned, ())
            except MainstemError as error:
                self._has_returned = True
                for consumer in list(self.consumers):
                    self._end(consumer, error)
                return False
        return True

    def _watch_tails(self) -> None:
        """Be told of what is appended where those who are ready have found nothing."""
        wanted: set[int] | None = set()
        for line in self._ready.values():
            for consumer in line:
                if consumer.allowed != 0 and wanted is not None:
                    wanted = None if consumer.partitions is None else wanted | consumer.partitions
        self._watched = None if wanted is None else frozenset(wanted)
        if wanted is not None and not wanted:
            return
        self._is_dry = True
        try:
            self._end_tails = self._dispatcher.watch(
                self.topic, self.name, self._grown, self._watched
            )
        except MainstemError:
            # It has ended just now; the next turn tells everybody.
            self._returned()

    def _stop_tails(self) -> None:
        self._is_dry = False
        self._end_tails()
        self._end_tails = _nothing

    def _stop_watching(self) -> None:
        self._stop_tails()
        self._end_returns()
        self._end_returns = _nothing


def _covers(watched: frozenset[int] | None, wanted: frozenset[int] | None) -> bool:
    """Tell whether all partitions that are wanted are watched; None is all."""
    return watched is None or (wanted is not None and wanted <= watched)


def _nothing() -> None:
    """Take back a watch that is not set."""
