"""Deletes events that every queue has settled, in topics with ``delete_acked``.

How this works: a settlement marks its topic, and the start of the broker marks all topics. About
once a second the marked topics are checked. Events are deleted up to the first one that some queue
has not settled or some live group has not read, when that frees a whole segment. If that event
stays unsettled, the log gets the list of later events that are needed, and frees the space of the
others (``Log.thin``). The log gets that list a second late, so that segments are not rewritten for
deliveries that are settled quickly. If a queue or group moves back to earlier events, this
permission to drop events ends.

Only settlements that are durable count: after a power cut the others would be gone, with the dead
letters and messages that were written with them, and so must the events not be. While some
settlements are not durable, those count that were there at the previous check, if these are.
"""

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from mainstem.broker.journal import IDS, QUEUES
from mainstem.broker.queues.registry import QueueRegistry, UnsettledOffsets
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.broker.transactions.records import TransactionFold
from mainstem.core.errors import MainstemError
from mainstem.log.port import Bounds, PartitionId

INTERVAL_MS = 1_000
LIVE_MS = 86_400_000
"""A group that has committed nothing for this long no longer keeps events from deletion."""
_JOURNAL = PartitionId(IDS[QUEUES], 0)
AT_ONCE = 500
"""Maximum number of topics checked per call."""

Trim = Callable[[str, int, int], Bounds]


class _Check(NamedTuple):
    """What was unsettled at a check, and the end of the queues' journal then."""

    unsettled: UnsettledOffsets
    journal_end: int


class AckedEvents:
    """Deletes settled events from topics; synchronous and thread-safe."""

    def __init__(
        self, state: State, registry: QueueRegistry, transactions: TransactionFold, trim: Trim
    ) -> None:
        self._state, self._registry, self._trim = state, registry, trim
        self._transactions = transactions
        self._now_ms, self._monotonic_ms = state.clocks
        self._next_ms = 0
        self._taken: dict[PartitionId, int] = {}
        """By partition: the first offset that, at the previous check, a queue or group still
        needed.
        """
        self._checks: dict[PartitionId, _Check] = {}
        """The last checks of partitions at which some settlement was not durable."""
        for topic in state.topics:
            if topic.settings.delete_acked:
                registry.settler.note_settled(topic.id)

    def next_deadline(self) -> int | None:
        """Return when to check topics next, on the monotonic clock; None if none is marked."""
        return self._next_ms if self._registry.settler.settled_topics else None

    def tick(self) -> None:
        """Delete settled events of the topics marked since the last call."""
        if not self._registry.settler.settled_topics or self._monotonic_ms() < self._next_ms:
            return
        self._next_ms = self._monotonic_ms() + INTERVAL_MS
        marked = self._registry.settler.settled_topics
        with self._registry.lock:
            # The other topics are checked a second later, so that a tick does not take long.
            topic_ids = list(islice(marked, AT_ONCE))
            for topic_id in topic_ids:
                del marked[topic_id]
        for topic_id in topic_ids:
            topic = self._state.topics.by_id(topic_id)
            if topic is None or not topic.settings.delete_acked:
                continue
            for at in topic.partitions:
                try:
                    self._look_at(topic, at)
                except MainstemError:
                    # The topic was deleted meanwhile, or the disk is full: the next settlement
                    # marks it again.
                    self._taken.pop(at, None)
                    self._checks.pop(at, None)

    def _look_at(self, topic: Topic, at: PartitionId) -> None:
        bounds = self._state.log.bounds(at)
        # Held until the log has the list of needed events: meanwhile no queue or group can move
        # back.
        with self._registry.lock, self._state.lock:
            unsettled = self._unsettled(at, bounds.tail)
            taken = min(unsettled.next, self._read_to(at, bounds.tail))
            settled = min(taken, unsettled.first)
            before = min(taken, self._taken.get(at, 0))
            if before - settled > unsettled.count_before(before):
                self._thin(at, before, unsettled)
        if settled < taken:
            if self._taken.get(at) != taken:
                # Events settled since then are dropped after the next check.
                self._registry.settler.note_settled(topic.id)
            self._taken[at] = taken
        else:
            self._taken.pop(at, None)
        events = bounds.end - bounds.start
        if settled <= bounds.start or not events:
            return
        freed = bounds.size_bytes * (settled - bounds.start) // events
        if freed >= topic.settings.segment_bytes or settled == bounds.end:
            self._trim(topic.name, at.number, settled)

    def _unsettled(self, at: PartitionId, tail: int) -> UnsettledOffsets:
        """Return the events that some queue has not settled, or whose settlement is not durable.

        The caller holds the lock of the queues.
        """
        found, journal = self._registry.unsettled(at, tail), self._state.log.bounds(_JOURNAL)
        if journal.tail >= journal.end:
            self._checks.pop(at, None)
            return found
        self._registry.settler.note_settled(at.topic_id)
        last = self._checks.get(at)
        if last is not None and journal.tail < last.journal_end:
            return UnsettledOffsets(0, ())
        self._checks[at] = _Check(found, journal.end)
        if last is None:
            return UnsettledOffsets(0, ())
        offsets = {*found.offsets, *last.unsettled.offsets}
        return UnsettledOffsets(min(found.next, last.unsettled.next), offsets)

    def _thin(self, at: PartitionId, before: int, unsettled: UnsettledOffsets) -> None:
        """Allow the log to drop settled events before an offset.

        The caller holds the lock of the queues and the broker's lock.
        """
        # Consumers need the markers of aborted transactions, whose offsets are not known.
        for span in self._transactions.aborted(at, 0, before):
            before = min(before, span.first_offset)
        self._state.before_cut(at, before)
        self._state.log.thin(at, before, unsettled.offsets)

    def _read_to(self, at: PartitionId, tail: int) -> int:
        """Return the first offset that some live group has not read; the broker's lock is held."""
        now_ms = self._now_ms()
        live = [
            cursor.offset
            for group, cursor in self._state.cursors.readers(at).items()
            if not cursor.is_unset
            and (now_ms - cursor.committed_ms < LIVE_MS or self._state.groups.is_live(group))
        ]
        return min(live, default=tail)
