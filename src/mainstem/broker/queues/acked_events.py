"""Deletes what every queue has settled, from topics that are set to ``delete_acked``.

How this works: settling takes note of the topic. About once a second such topics are looked at:
events below the first one that some queue has not settled, or that some live group has not read,
are deleted, once they are worth a segment: only whole segments give space back.
"""

from collections.abc import Callable

from mainstem.broker.queues.registry import QueueRegistry
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.errors import MainstemError
from mainstem.log.port import Bounds, PartitionId

INTERVAL_MS = 1_000
LIVE_MS = 86_400_000
"""How long a group that commits nothing keeps events that it has not read."""

Trim = Callable[[str, int, int], Bounds]


class AckedEvents:
    """Trims topics; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        registry: QueueRegistry,
        trim: Trim,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._state, self._registry, self._trim = state, registry, trim
        self._now_ms, self._monotonic_ms = now_ms, monotonic_ms
        self._next_ms = 0

    def next_deadline(self) -> int | None:
        """Return when topics are to be looked at, on the monotonic clock; None if none are."""
        return self._next_ms if self._registry.settler.settled_topics else None

    def tick(self) -> None:
        """Trim topics of which something was settled."""
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
                    # Deleted meanwhile, or no room to note it: the next settlement comes back here.
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
