"""Time-driven work on queues (and share groups): ends locks and delays, and checks limits.

How this works: ``expire`` returns events whose lock or delay has ended to their queue, or writes
their dead letters. Operations on a queue call it first; in a server ``tick`` also calls it for
queues whose first deadline has passed. To find these without looking at all queues, the
deadlines of the queues that were used are noted each time the lock of all queues is released
(``set_deadlines``).

Queues with limits are checked when events were appended or returned, but only now and then, as each
check reads events (``enforce_limits``). All methods but ``grew`` are called under the lock of all
queues.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice

from mainstem.broker.deadlines import MAX_AT_ONCE, Deadlines, first_wait_ms
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import QueueKey
from mainstem.broker.queues.settlement import Settler
from mainstem.broker.state import State
from mainstem.core.errors import MainstemError

_Place = tuple[str, str]
"""A queue's name and topic id, in a form that can be sorted."""
LOOK_MS = 50
"""Minimum time between two checks of a queue's limits."""
LOOK_SHARE = 20
"""Checks of limits take at most one of this many milliseconds."""
RETRY_MS = 1_000
"""Delay before dead letters that could not be written are tried again."""


class LockExpiry:
    """Ends the locks and delays of all queues, and checks their limits."""

    def __init__(
        self, state: State, settler: Settler, find: Callable[[QueueKey], LiveQueue | None]
    ) -> None:
        """``find``: returns an open queue, or opens it; None if it was deleted."""
        self._now_ms, self._monotonic_ms = state.clocks
        self._alarm = state.alarm
        self._settler = settler
        self._find = find
        self._used: dict[QueueKey, LiveQueue] = {}
        """Queues whose deadlines may have changed since the last check."""
        self._lock_expiries = Deadlines[_Place]()
        """When the first lock of each queue expires, on the monotonic clock."""
        self._delay_ends = Deadlines[_Place]()
        """When the first delay of each queue ends, in wall-clock time."""
        self._spent: dict[QueueKey, LiveQueue] = {}
        """Queues with dead letters that could not be written yet."""
        self._grown = set[QueueKey]()
        """Queues with limits that may have received events since the last check."""
        self._looks = Deadlines[_Place]()
        """When to check the limits of queues that received events, on the monotonic clock."""
        self._looked_ms: dict[QueueKey, int] = {}
        self._rested_ms = 0
        """When the next checks of limits may follow, so that there is time for other work."""

    def note_used(self, live: LiveQueue) -> None:
        """Note that the deadlines of a queue may change before the lock is released."""
        self._used[live.key] = live

    def grew(self, key: QueueKey) -> None:
        """Note, from any thread, that a queue with limits has received events."""
        self._grown.add(key)
        self._alarm()

    def expire(self, live: LiveQueue) -> None:
        """Return expired deliveries, write dead letters, and wake waiting consumers."""
        is_changed = live.expire(self._monotonic_ms(), self._now_ms())
        if self._settler.bury_spent(live) or is_changed:
            self._settler.calls += live.take_waiting()

    def enforce_limits(self, live: LiveQueue) -> None:
        """Remove events over the limits, and schedule the next check."""
        if not live.settings.is_limited:
            return
        self._looked_ms[live.key] = self._monotonic_ms()
        # The topic may be deleted or the log closed; the next acquire reports that.
        with suppress(MainstemError):
            live.watch_growth(partial(self.grew, live.key))
            self._settler.enforce_limits(live)

    def look_soon(self, live: LiveQueue) -> None:
        """Schedule a check of the queue's limits."""
        if live.key not in self._grown and (live.key.name, live.key.topic_id) not in self._looks:
            self.grew(live.key)

    def tick(self) -> None:
        """Return expired deliveries to their queues, and write dead letters.

        Handles a bounded number per call and the rest in later calls, so that other queues get
        their turn.
        """
        due = dict(islice(self._spent.items(), MAX_AT_ONCE))
        self._note_grown()
        looks = {QueueKey(*place) for place in self._looks.due(self._monotonic_ms())}
        locks = [QueueKey(*place) for place in self._lock_expiries.due(self._monotonic_ms())]
        delays = [QueueKey(*place) for place in self._delay_ends.due(self._now_ms())]
        looks.update(delays)
        for key in (*looks, *locks):
            if (live := self._find(key)) is not None:
                due[key] = live
            else:
                self._looked_ms.pop(key, None)
        began_ms = self._monotonic_ms()
        for key, live in due.items():
            self._used[key] = live
            self.expire(live)
            if key in looks:
                self.enforce_limits(live)
        if looks:
            ended_ms = self._monotonic_ms()
            self._rested_ms = ended_ms + LOOK_SHARE * (ended_ms - began_ms)

    def next_wait_ms(self) -> int | None:
        """Return the ms until ``tick`` is next due; None if there is no deadline."""
        self.set_deadlines()
        self._note_grown()
        return first_wait_ms(
            (
                (self._lock_expiries.next(), self._monotonic_ms),
                (self._delay_ends.next(), self._now_ms),
                (self._looks.next(), self._monotonic_ms),
            )
        )

    def set_deadlines(self) -> None:
        """Update the deadlines of all queues that were used since the last call."""
        self._note_returned()
        for key, live in self._used.items():
            place = (key.name, key.topic_id)
            if live.is_closed:
                # The queue was deleted; one created later with the same name and topic is another
                # object.
                for deadlines in (self._lock_expiries, self._delay_ends, self._looks):
                    deadlines.clear(place)
                self._looked_ms.pop(key, None)
                self._spent.pop(key, None)
                continue
            lock_ms, delay_ms, is_spent = live.deadlines()
            for deadlines, due_ms in ((self._lock_expiries, lock_ms), (self._delay_ends, delay_ms)):
                if due_ms is not None:
                    deadlines.set(place, due_ms)
                elif place in deadlines:
                    deadlines.clear(place)
            if is_spent:
                self._spent[key] = live
            else:
                self._spent.pop(key, None)
        self._used.clear()

    def _note_grown(self) -> None:
        """Schedule checks of queues with limits that got events, each once per ``LOOK_MS``."""
        now_ms = self._monotonic_ms()
        while self._grown:
            key = self._grown.pop()
            looked_ms = self._looked_ms.get(key)
            due_ms = now_ms
            if looked_ms is not None:
                due_ms = max(now_ms, looked_ms + LOOK_MS, self._rested_ms)
            place = (key.name, key.topic_id)
            if place not in self._looks:
                self._looks.set(place, due_ms)

    def _note_returned(self) -> None:
        """Schedule checks of queues with limits to which events were returned."""
        while self._settler.given_back:
            self.grew(self._settler.given_back.pop())
        while self._settler.kept:
            # Retry after a delay: the disk is full, or the head that owns the route is off.
            key = self._settler.kept.pop()
            self._looks.set((key.name, key.topic_id), self._monotonic_ms() + RETRY_MS)
