"""Topics, partitions and offset bounds of a source, requested from the broker and cached.

Spark asks for the latest offsets about every ten milliseconds, so responses are cached briefly.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from mainstem.core.errors import MainstemError, UnknownPartition, UnknownTopic, Unreachable
from mainstem.pipelines.format.options import EARLIEST, LATEST, Edge, SourceOptions
from mainstem.remote.admin import (
    Admin,
    Bounds,
    Described,
    Place,
    out_of_range,
)
from mainstem.remote.fetch import bytes_per_offset
from mainstem.remote.leaders import Leaders
from mainstem.remote.list_offsets import Listed, list_offsets

T = TypeVar("T")

TOPICS_KEPT_S = 1.0
"""Seconds until a new partition, or a new topic that matches a pattern, is noticed."""
BOUNDS_KEPT_S = 0.02
_LARGE_BYTES = 1 << 20
"""Assumed maximum size of an event, to decide whether a backlog must be sampled."""
_LOOKS = 3
_AGAIN_S = 0.1


class TopicMetadata:
    """Cached metadata of the topics of a source."""

    def __init__(
        self, options: SourceOptions, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._now = now
        self._cluster = options.server.cluster()
        self._leaders = Leaders(self._cluster)
        self._cluster.check_reachable()
        self.administration = Admin(self._cluster)
        self._topics: tuple[float, dict[str, Described]] = (float("-inf"), {})
        self._bounds: tuple[float, dict[Place, Bounds]] = (float("-inf"), {})

    def topics(self, *, fresh: bool = False) -> dict[str, Described]:
        """Return the subscribed topics that exist; ``fresh`` bypasses the cache."""
        asked_at, known = self._topics
        now = self._now()
        if fresh or now - asked_at >= TOPICS_KEPT_S:
            known = self.administration.describe(self._names())
            self._topics = (now, known)
        return known

    def required(self) -> dict[str, Described]:
        """Return the subscribed topics, not cached; raises UnknownTopic if one does not exist."""
        found = self.topics(fresh=True)
        for name in self._options.topics:
            if name not in found:
                raise UnknownTopic(name)
        return found

    def bounds(self, *, fresh: bool = False, kept_s: float = BOUNDS_KEPT_S) -> dict[Place, Bounds]:
        """Return the start of every partition, and its end for readers of committed events."""
        asked_at, known = self._bounds
        now = self._now()
        if fresh or now - asked_at >= kept_s:
            known = self._of_all(self.places, self._ask_bounds)
            self._bounds = (now, known)
        return known

    def places(self) -> list[Place]:
        """Return all partitions of all subscribed topics."""
        return [
            (topic, partition)
            for topic, described in self.topics().items()
            for partition in range(described.partitions)
        ]

    def at_time(self, places: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
        """Return each partition's first offset at or after a time, if it has one."""
        wanted = set(places)
        found = self._of_all(
            lambda: wanted.intersection(self.places()),
            lambda all_: self._ask_times(all_, timestamp_ms),
        )
        return {place: offset for place, offset in found.items() if offset is not None}

    def _ask_bounds(self, places: Collection[Place]) -> dict[Place, Bounds]:
        listed = self._listed(dict.fromkeys(places, EARLIEST), dict.fromkeys(places, LATEST))
        if listed is None:
            return self.administration.bounds(places, committed=True)
        starts, tails = listed
        return {
            place: Bounds(starts[place][0], tail, max(0, epoch))
            for place, (tail, epoch) in tails.items()
        }

    def _ask_times(self, places: Collection[Place], timestamp_ms: int) -> dict[Place, int | None]:
        listed = self._listed(dict.fromkeys(places, timestamp_ms))
        if listed is None:
            return self.administration.at_time(places, timestamp_ms)
        return {place: None if offset < 0 else offset for place, (offset, _) in listed[0].items()}

    def _listed(self, *asked: Mapping[Place, int]) -> list[Listed] | None:
        """Ask the partition leaders directly for offsets; None if librdkafka must ask them."""
        if not self._cluster.is_plain:
            return None
        try:
            return list_offsets(self._leaders, *asked)
        except MainstemError:
            self._leaders.close()
            self._leaders = Leaders(self._cluster)
            return None

    def rows_in(self, max_bytes: int, begin: Mapping[Place, int], ends: Mapping[Place, int]) -> int:
        """Estimate how many rows fit into ``max_bytes``, by sampling the largest backlogs.

        Returns ``max_bytes`` itself, which is no limit, if so few rows wait that they surely fit.
        """
        waiting = {place: end - begin[place] for place, end in ends.items()}
        # A few rows never exceed the limit, and sampling costs a request.
        if not self._cluster.is_plain or sum(waiting.values()) * _LARGE_BYTES <= max_bytes:
            return max_bytes
        most = sorted(waiting, key=lambda place: waiting[place])[-_LOOKS:]
        sizes = [self._size(place, begin[place]) for place in most]
        return max(1, int(max_bytes / max(1.0, *sizes)))

    def _size(self, place: Place, offset: int) -> float:
        try:
            return bytes_per_offset(self._leaders, self._cluster, place, offset)
        except Unreachable:
            # The broker was restarted since then, or the leader has changed.
            self._leaders.close()
            self._leaders = Leaders(self._cluster)
            return bytes_per_offset(self._leaders, self._cluster, place, offset)

    def edge(self, edge: Edge, bounds: Mapping[Place, Bounds], *, unnamed: str) -> dict[Place, int]:
        """Return for every partition the offset at which reading begins or ends.

        ``unnamed`` (``earliest`` or ``latest``) applies to partitions whose offsets ``edge`` does
        not name.
        """
        if edge.timestamp_ms is not None:
            found = self.at_time(bounds, edge.timestamp_ms)
            return {
                place: min(found.get(place, limits.tail), limits.tail)
                for place, limits in bounds.items()
            }
        if isinstance(edge.offsets, str):
            return {place: _end(edge.offsets, limits) for place, limits in bounds.items()}
        for topic, offsets in edge.offsets.items():
            for partition in offsets:
                if (topic, partition) not in bounds:
                    raise UnknownPartition(topic, partition)
        found = {
            place: _said(edge.offsets.get(place[0], {}).get(place[1]), unnamed, limits)
            for place, limits in bounds.items()
        }
        for place, offset in found.items():
            if unnamed == "earliest" and offset > bounds[place].tail:
                raise out_of_range(place, offset, bounds[place])
        return found

    def close(self) -> None:
        """Close the connections."""
        self._leaders.close()

    def __del__(self) -> None:
        # Spark drops readers without calling ``stop``.
        self.close()

    def _of_all(
        self,
        wanted: Callable[[], Collection[Place]],
        ask: Callable[[Collection[Place]], dict[Place, T]],
    ) -> dict[Place, T]:
        """Call ``ask`` until it has a result for every partition of the existing topics.

        While a broker restarts, librdkafka reports that its partitions do not exist. Raises
        Unreachable when the client's timeout is over.
        """
        until = time.monotonic() + self._cluster.timeout_s
        while True:
            places = wanted()
            found = ask(places)
            if len(found) == len(places):
                return found
            if time.monotonic() > until:
                raise Unreachable(
                    self._cluster.address,
                    f"it tells of {len(found)} of {len(places)} partitions where they end",
                )
            time.sleep(_AGAIN_S)
            self.topics(fresh=True)

    def wants(self, topic: str) -> bool:
        """Return whether a topic is one of the subscribed ones."""
        if self._options.pattern is None:
            return topic in self._options.topics
        # `.*` does not include internal topics.
        return bool(re.fullmatch(self._options.pattern, topic)) and not topic.startswith("__")

    def _names(self) -> Iterable[str]:
        if self._options.pattern is None:
            return self._options.topics
        return filter(self.wants, self.administration.partitions())


def _said(offset: int | None, unnamed: str, bounds: Bounds) -> int:
    if offset is None:
        return _end(unnamed, bounds)
    if offset == EARLIEST:
        return bounds.start
    return bounds.tail if offset == LATEST else offset


def _end(word: str, bounds: Bounds) -> int:
    return bounds.start if word == "earliest" else bounds.tail
