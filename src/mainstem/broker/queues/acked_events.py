"""Deletes events that every queue has settled, in topics with ``delete_acked``.

How this works: a settlement marks its topic. About once a second each marked topic is checked.
Events are deleted up to the first one that some queue has not settled or some live group has not
read. That happens only when it frees a whole segment, because only whole segments free disk space.
"""

from collections.abc import Callable

from mainstem.broker.queues.registry import QueueRegistry
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.errors import MainstemError
from mainstem.log.port import Bounds, PartitionId

INTERVAL_MS = 1_000
LIVE_MS = 86_400_000
"""A group that has committed nothing for this long no longer keeps events from deletion."""

Trim = Callable[[str, int, int], Bounds]


class AckedEvents:
    """Deletes settled events from topics; synchronous and thread-safe."""

    def __init__(self, state: State, registry: QueueRegistry, trim: Trim) -> None:
        self._state, self._registry, self._trim = state, registry, trim
        self._now_ms, self._monotonic_ms = state.clocks
        self._next_ms = 0

    def next_deadline(self) -> int | None:
        """Return when to check topics next, on the monotonic clock; None if none is marked."""
        return self._next_ms if self._registry.settler.settled_topics else None

    def tick(self) -> None:
        """Delete settled events of the topics marked since the last call."""
        if not self._registry.settler.settled_topics or self._monotonic_ms() < self._next_ms:
            return
        self._next_ms = self._monotonic_ms() + INTERVAL_MS
        with self._registry.lock:
            topic_ids = self._registry.settler.settled_topics
            self._registry.settler.settled_topics = set()
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
                    continue

    def _look_at(self, topic: Topic, at: PartitionId) -> None:
        bounds = self._state.log.bounds(at)
        settled = min(self._registry.settled_to(at, bounds.tail), self._read_to(at, bounds.tail))
        events = bounds.end - bounds.start
        if settled <= bounds.start or not events:
            return
        freed = bounds.size_bytes * (settled - bounds.start) // events
        if freed >= topic.settings.segment_bytes or settled == bounds.end:
            self._trim(topic.name, at.number, settled)

    def _read_to(self, at: PartitionId, tail: int) -> int:
        """Return the first offset that a live group has not read."""
        now_ms = self._now_ms()
        with self._state.lock:
            live = [
                cursor.offset
                for group, cursor in self._state.cursors.readers(at).items()
                if not cursor.is_unset
                and (now_ms - cursor.committed_ms < LIVE_MS or self._state.groups.is_live(group))
            ]
        return min(live, default=tail)
