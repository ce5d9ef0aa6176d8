"""Distributes the events of queues among their waiting consumers, for all heads.

How this works: a head registers a consumer with its credit (prefetch, link credit, max in flight)
and a function that delivers events to it (``take``). A consumer is ready while it has credit, its
session has credit, and it is not paused. When a queue may have events, the ready consumers are
called round robin, those of the highest priority first. Each is asked for a number of events (a
portion) that doubles with every round: so a few events are spread evenly, and many are delivered
quickly. If a consumer gets nothing, the queue is empty for all consumers of the same partitions; so
one event does not wake all of them.

A queue has two watches, however many consumers wait. One reports returned deliveries and the
deletion of the queue; it is renewed before any consumer is called, so that nothing is missed. The
other reports appends; it is set when the queue is empty, as only then the ends of the partitions
are known. One run of deliveries is limited in events and time, so that other work on the event loop
is not delayed.

All of this runs in the event loop, except that watches are called from any thread.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Protocol

from mainstem.core.errors import MainstemError

_logger = logging.getLogger("mainstem.heads")

TURN_EVENTS = 1000
"""Maximum number of events that a queue delivers before other work of the event loop."""
TURN_S = 0.005
"""Maximum time that a queue delivers events before other work of the event loop."""
LARGEST_PORTION = 64
"""Maximum number of events for one consumer in a row while other consumers are ready."""

Call = Callable[[], None]
Take = Callable[[int], int]
"""A consumer's function: delivers at most this number of events of the queue, and returns how many.
Raises MainstemError.
"""
Gone = Callable[[MainstemError], None]
"""A consumer's function: called when the dispatcher closes it, as the queue was deleted or taking
failed.
"""


class Watch(Protocol):
    """A function of the broker that has ``wake`` called when a queue may have events."""

    def __call__(
        self, topic: str, name: str, wake: Call, partitions: Collection[int] | None
    ) -> Call:
        """Start watching a queue; return a function that cancels the watch.

        Raises UnknownTopic, UnknownQueue.
        """


class SessionCredit:
    """A credit that several consumers share, such as those of an AMQP channel."""

    __slots__ = ("consumers", "credit")

    def __init__(self, credit: int | None) -> None:
        self.credit = credit
        """How many more events may be delivered to the consumers; None is no limit."""
        self.consumers: OrderedDict[Consumer, None] = OrderedDict()
        """The consumers that share the credit, the least recently served first."""

    def add_credit(self, count: int) -> None:
        """Allow ``count`` more events to be delivered to the consumers."""
        if self.credit is None or count <= 0:
            return
        self.credit += count
        self._line_up()

    def limit(self, credit: int | None) -> None:
        """Replace the credit: ``credit`` more events may be delivered; None is no limit.

        If negative, more than ``-credit`` events must be settled before another is delivered.
        """
        self.credit = credit
        self._line_up()

    def _line_up(self) -> None:
        for consumer in list(self.consumers):
            consumer.line_up()


class Consumer:
    """A consumer of one queue, limited by its credit."""

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
        self.take, self.gone = take, gone
        self.credit = credit
        """How many more events may be delivered; None is no limit."""
        self.priority, self.session = priority, session
        self.partitions = partitions
        """The partitions whose events the consumer gets; None for all."""
        self.is_paused = self.is_closed = False

    @property
    def allowed(self) -> int | None:
        """How many events may be delivered now, by both its own and its session's credit.

        None is no limit.
        """
        if self.is_closed or self.is_paused:
            return 0
        shared = None if self.session is None else self.session.credit
        if shared is None:
            return self.credit
        shared = max(0, shared)
        return shared if self.credit is None else min(self.credit, shared)

    def add_credit(self, count: int) -> None:
        """Allow ``count`` more events to be delivered; no effect if there is no limit."""
        if self.credit is not None and count > 0:
            self.credit += count
            self.line_up()

    def pause(self) -> None:
        """Stop deliveries until ``resume``, because the peer must read first."""
        self.is_paused = True

    def resume(self) -> None:
        """Continue deliveries."""
        if self.is_paused:
            self.is_paused = False
            self.line_up()

    def close(self) -> None:
        """Stop deliveries for good; unsettled deliveries stay unsettled."""
        if not self.is_closed:
            self.is_closed = True
            if self.session is not None:
                self.session.consumers.pop(self, None)
            self._queue.remove(self)

    def line_up(self) -> None:
        """Join the queue's round robin, if this consumer may get events now."""
        if self.allowed != 0:
            self._queue.line_up(self)

    def given(self, count: int) -> None:
        """Subtract ``count`` delivered events from the credits."""
        if self.credit is not None:
            self.credit -= count
        if self.session is not None:
            if self.session.credit is not None:
                self.session.credit -= count
            if self in self.session.consumers:
                self.session.consumers.move_to_end(self)


class Dispatcher:
    """Distributes events of queues among consumers by credit; only the event loop may call it."""

    def __init__(
        self,
        watch: Watch,
        soon: Callable[[Call], None],
        later: Callable[[Call], None],
        clock: Callable[[], float],
    ) -> None:
        """Set the functions that call the broker and the event loop.

        ``soon``: makes a call in the event loop, from any thread. ``later``: makes one in the next
        iteration. ``clock``: returns seconds, to limit how long a queue delivers at a time.
        """
        self.watch = watch
        self.soon = soon
        self.later = later
        self.clock = clock
        self.is_stopped = False
        self.dry: Call = _nothing
        """Called when a queue has no event for a consumer, because pending settlements may return
        some.
        """
        self._queues: dict[tuple[str, str], _Queue] = {}

    def session(self, credit: int | None = None) -> SessionCredit:
        """Return a shared credit, for consumers to be registered with; None is no limit."""
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
        single: bool = False,
    ) -> Consumer:
        """Register a consumer of a queue; consumers of higher priority are served first.

        ``take`` is not called before this returns. If the queue does not exist, ``gone`` is called
        soon. ``single``: only the queue's oldest consumer is served, until it closes.
        """
        found = self._queues.get((topic, queue))
        if found is None:
            found = self._queues[topic, queue] = _Queue(self, topic, queue)
        found.single = single
        chosen = None if partitions is None else frozenset(partitions)
        consumer = Consumer(found, take, gone, credit, priority, session, chosen)
        found.consumers[consumer] = None
        if session is not None:
            session.consumers[consumer] = None
        if consumer.allowed == 0:
            # This reports a missing queue even to a consumer without credit.
            found.begin()
        else:
            consumer.line_up()
        return consumer

    def go_first(self, topic: str, queue: str) -> bool:
        """Serve the queue's waiting consumers; return whether no event is left for them.

        To be called before events are acquired from the queue without a consumer.
        """
        found = self._queues.get((topic, queue))
        return found is None or found.go_first()

    def stop(self) -> None:
        """Stop all deliveries, as the server stops."""
        self.is_stopped = True

    def forget(self, queue: "_Queue") -> None:
        """Remove a queue that has no consumers."""
        if self._queues.get((queue.topic, queue.name)) is queue:
            del self._queues[queue.topic, queue.name]

    def __len__(self) -> int:
        return len(self._queues)


class _Queue:
    """The consumers of one queue, and the watches on it."""

    def __init__(self, dispatcher: Dispatcher, topic: str, name: str) -> None:
        self._dispatcher = dispatcher
        self.topic = topic
        self.name = name
        self.consumers: dict[Consumer, None] = {}
        self.single = False
        """Whether only the first consumer is served (single active consumer)."""
        self._ready: dict[int, OrderedDict[Consumer, None]] = {}
        """Consumers by priority, each in round-robin order; some may no longer be ready."""
        self._portion = 1
        self._is_due = self._in_turn = False
        """Whether a run of deliveries is scheduled, and whether one is in progress."""
        self._is_dry = False
        """Whether all ``_watched`` partitions were found empty, and are watched for appends."""
        self._watched: frozenset[int] | None = frozenset()
        self._end_tails: Call = _nothing
        self._end_returns: Call = _nothing
        self._has_returned = True
        """Whether the watch for returned deliveries has fired or is not set yet, so must be set."""

    # Consumers

    def line_up(self, consumer: Consumer) -> None:
        """Add a ready consumer to the round robin."""
        if self.single and consumer is not next(iter(self.consumers), None):
            return
        line = self._ready.get(consumer.priority)
        if line is None:
            line = self._ready[consumer.priority] = OrderedDict()
        if consumer not in line:
            line[consumer] = None
            if not self._is_dry or not _covers(self._watched, consumer.partitions):
                self._is_dry = False
                self.wake()

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; without consumers, stop watching the queue."""
        self.consumers.pop(consumer, None)
        self._unready(consumer)
        if not self.consumers:
            self._stop_watching()
            self._dispatcher.forget(self)
        elif self.single:
            next(iter(self.consumers)).line_up()

    def _unready(self, consumer: Consumer) -> None:
        line = self._ready.get(consumer.priority)
        if line is not None:
            line.pop(consumer, None)
            if not line:
                del self._ready[consumer.priority]

    # Wake-ups

    def begin(self) -> None:
        """Check soon whether the queue exists, unless it is already watched."""
        if self._has_returned:
            self.wake()

    def wake(self) -> None:
        """Schedule a run of deliveries; called from any thread."""
        if not self._is_due:
            self._is_due = True
            self._dispatcher.soon(self._turn)

    def go_first(self) -> bool:
        """Run scheduled deliveries now; return whether no event is left for waiting consumers."""
        if self._is_due and not self._in_turn:
            self._turn()
        return not self._is_due or not self._ready

    def _returned(self) -> None:
        """Schedule a run, because deliveries returned or the queue was deleted; from any thread."""
        self._has_returned = True
        self._is_dry = False
        self.wake()

    def _grown(self) -> None:
        """Schedule a run, because events were appended; called from any thread."""
        self._is_dry = False
        self.wake()

    # Turns

    def _turn(self) -> None:
        """Run deliveries, within limits, then watch for more events."""
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
                # There is more: continue in the next iteration of the loop.
                self._is_due = True
                self._dispatcher.later(self._turn)
        finally:
            self._in_turn = False

    def _hand_out(self) -> bool:
        """Serve ready consumers until the queue has no event for them.

        Returns False if the limit on events or time was reached first.
        """
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
                        # The consumer was closed or paused, so the queue may have more.
                        self._unready(consumer)
                    elif consumer.partitions is None:
                        return True
                    else:
                        dry |= consumer.partitions
                self._portion = min(2 * self._portion, LARGEST_PORTION)
        return True

    def _ask(self, consumer: Consumer, left: int) -> int:
        """Call a consumer's ``take`` for a portion of events; return how many it got."""
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
            # A bug in one head must not stop the other consumers of the queue.
            _logger.error("a consumer of queue %r failed", self.name, exc_info=error)
            self._end(consumer, MainstemError(f"taking from queue {self.name!r} has failed"))
            return 0
        consumer.given(count)
        if count and consumer in line:
            # A consumer that got nothing stays first for the next turn.
            line.move_to_end(consumer)
        return count

    def _end(self, consumer: Consumer, error: MainstemError) -> None:
        if not consumer.is_closed:
            consumer.close()
            consumer.gone(error)

    # Watches

    def _watch_returns(self) -> bool:
        """Watch for returned deliveries and deletion; close all consumers if the queue is gone.

        Returns False if it is gone.
        """
        if self._has_returned:
            # Cleared before the watch is set, which may call ``_returned`` at once.
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
        """Watch for appends to the partitions of all consumers with credit."""
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
            # The queue was just deleted; the next turn closes its consumers.
            self._returned()
        self._dispatcher.dry()

    def _stop_tails(self) -> None:
        self._is_dry = False
        self._end_tails()
        self._end_tails = _nothing

    def _stop_watching(self) -> None:
        self._stop_tails()
        self._end_returns()
        self._end_returns = _nothing


def _covers(watched: frozenset[int] | None, wanted: frozenset[int] | None) -> bool:
    """Tell whether all wanted partitions are among the watched ones; None means all."""
    return watched is None or (wanted is not None and wanted <= watched)


def _nothing() -> None:
    """Do nothing: the placeholder until a watch is set that can be cancelled."""
