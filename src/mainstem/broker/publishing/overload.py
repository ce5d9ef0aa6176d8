"""Overload policies: the gate that limits the backlog of a topic with ``max_backlog``.

The backlog of a partition is the distance from its slowest live cursor to its end, or from its
start if there is no live cursor. A queue's first unsettled event counts as a cursor, too. A cursor
is live while its group has members, has committed in the last day, or had nothing left to commit in
the last day: a consumer that waits at the tail of a quiet topic is live. Events are admitted if the
backlog stays within the limit with them, or if it is zero without them: otherwise a batch larger
than the limit could never be appended.

Counters start at zero with the process. Events that were deleted before a group had read them are
counted per group.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from mainstem.broker.groups.cursors import Cursor, Cursors
from mainstem.broker.topics.catalog import Topic
from mainstem.core.errors import Overloaded
from mainstem.core.topic_settings import Overload
from mainstem.log.commit.durable import Commit
from mainstem.log.port import Bounds, Log, PartitionId

LIVE_MS = 86_400_000
"""How long a cursor without commits counts as live."""
NO_COUNTERS = {"dropped": 0, "refused": 0, "held": 0, "held_ms": 0}
"""Initial counters: events dropped, events refused, requests held, and total ms they were held."""
_STEPS = 64
"""drop=oldest deletes events in steps of this fraction of max_backlog, as each step has a fixed
cost.
"""

T = TypeVar("T")


class HeldPublish(NamedTuple):
    """A publish held back by backpressure: retry when ``room`` is done, or at ``until_ms``."""

    room: Commit
    since_ms: int
    until_ms: int


class Gate:
    """Keeps the backlog of one topic within its limit; used under the broker's lock."""

    def __init__(
        self,
        topic: Topic,
        log: Log,
        cursors: Cursors,
        is_live: Callable[[str], bool],
        before_cut: Callable[[PartitionId, int], None],
    ) -> None:
        self.topic, self._log, self._cursors = topic, log, cursors
        self._is_live, self._before_cut = is_live, before_cut
        self._waiting: set[Commit] = set()
        self._queues: dict[PartitionId, dict[str, Cursor]] = {}
        self._caught_up: dict[PartitionId, dict[str, int]] = {}
        self._missed: dict[PartitionId, dict[str, int]] = {}
        self._counted_to: dict[PartitionId, int] = {}
        self.counters = dict(NO_COUNTERS)

    def admit(
        self,
        counts: Mapping[int, int],
        now_ms: int,
        held: HeldPublish | None,
        *,
        last: bool = False,
    ) -> HeldPublish | None:
        """Return None if events fit, HeldPublish if the producer must wait; raise Overloaded.

        ``held``: what the previous call for these events returned. ``last``: raise instead of
        holding the producer again.
        """
        if self.topic.settings.overload is Overload.DROP_OLDEST:
            return None
        full = next((at for at in counts if not self._has_room(at, counts[at], now_ms)), None)
        if full is None:
            self.let_go(held, now_ms)
            return None
        wait = self.topic.settings.overload is Overload.BACKPRESSURE
        if wait and not last and (held is None or now_ms < held.until_ms):
            return self._hold(held, now_ms)
        self.let_go(held, now_ms)
        self.counters["refused"] += sum(counts.values())
        raise self._overloaded(full, held is not None)

    def append(
        self,
        counts: Mapping[int, int],
        now_ms: int,
        held: HeldPublish | None,
        append: Callable[[], T],
        *,
        last: bool = False,
    ) -> T | HeldPublish:
        """Append events if admitted; with ``drop=oldest`` delete the oldest beyond the limit."""
        again = self.admit(counts, now_ms, held, last=last)
        if again is not None:
            return again
        appended = append()
        self.shed(counts, now_ms)
        return appended

    def has_room(self, counts: Mapping[int, int], now_ms: int) -> bool:
        """Tell whether events would be admitted now, without counting anything."""
        if self.topic.settings.overload is Overload.DROP_OLDEST:
            return True
        return all(self._has_room(at, count, now_ms) for at, count in counts.items())

    def let_go(self, held: HeldPublish | None, now_ms: int) -> None:
        """Stop holding a producer, and count how long it was held."""
        if held is not None:
            self._waiting.discard(held.room)
            self.counters["held_ms"] += max(0, now_ms - held.since_ms)

    def forget(self, held: HeldPublish) -> None:
        """Stop holding a producer without counting: another topic's gate holds it next."""
        self._waiting.discard(held.room)

    def shed(self, partitions: Iterable[int], now_ms: int) -> None:
        """After an append with ``drop=oldest``: delete the oldest events beyond the limit."""
        if self.topic.settings.overload is not Overload.DROP_OLDEST:
            return
        limit = self.topic.settings.max_backlog or 0
        for number in partitions:
            partition = self.topic.partitions[number]
            bounds = self._log.bounds(partition)
            slowest = self._slowest(partition, bounds, now_ms)
            if bounds.end - slowest > limit + limit // _STEPS:
                # Events that are not visible yet cannot be dropped yet.
                start = min(bounds.end - limit, bounds.tail)
                if start > bounds.start:
                    self._drop(partition, bounds.start, start, slowest)

    def make_room(self) -> list[Callable[[], None]]:
        """Return callbacks that wake held producers, after a cursor or the topic has changed."""
        waiting, self._waiting = self._waiting, set()
        return [room.settle for room in waiting]

    def queue_at(self, name: str, partition: PartitionId, cursor: Cursor | None) -> None:
        """Note a queue's first unsettled event as its cursor.

        ``cursor``: None if the queue was deleted.
        """
        # No group can have this name, so both kinds share a dict.
        reader = f"\0{name}"
        if cursor is None:
            self._queues.get(partition, {}).pop(reader, None)
        else:
            self._queues.setdefault(partition, {})[reader] = cursor

    def missed(self, group: str, partition: PartitionId, start: int) -> int:
        """Return how many events were deleted before the group committed them."""
        counted = self._missed.get(partition, {}).get(group, 0)
        cursor = self._cursors.at(group, partition)
        if cursor is None:
            return counted
        return counted + max(0, start - max(cursor.offset, self._counted_to.get(partition, 0)))

    def backlog(self, number: int, now_ms: int) -> int:
        """Return the distance from the slowest live cursor to the end of a partition."""
        partition = self.topic.partitions[number]
        bounds = self._log.bounds(partition)
        return bounds.end - self._slowest(partition, bounds, now_ms)

    def _has_room(self, number: int, count: int, now_ms: int) -> bool:
        backlog = self.backlog(number, now_ms)
        return backlog == 0 or backlog + count <= (self.topic.settings.max_backlog or 0)

    def _slowest(self, partition: PartitionId, bounds: Bounds, now_ms: int) -> int:
        readers = self._cursors.readers(partition)
        if partition in self._queues:
            readers = {**readers, **self._queues[partition]}
        before = self._caught_up.get(partition, {})
        caught_up: dict[str, int] = {}
        slowest: int | None = None
        for group, cursor in readers.items():
            if cursor.is_unset:
                continue
            heard_ms = max(cursor.committed_ms, before.get(group, 0))
            if cursor.offset >= bounds.end:
                heard_ms = caught_up[group] = now_ms
            elif group in before:
                caught_up[group] = before[group]
            if now_ms - heard_ms < LIVE_MS or self._is_live(group):
                place = max(cursor.offset, bounds.start)
                slowest = place if slowest is None else min(slowest, place)
        if caught_up or before:
            self._caught_up[partition] = caught_up
        return bounds.start if slowest is None else min(slowest, bounds.end)

    def _hold(self, held: HeldPublish | None, now_ms: int) -> HeldPublish:
        room = Commit()
        self._waiting.add(room)
        if held is None:
            self.counters["held"] += 1
            return HeldPublish(room, now_ms, now_ms + self.topic.settings.hold_ms)
        self._waiting.discard(held.room)
        return HeldPublish(room, held.since_ms, held.until_ms)

    def _drop(self, partition: PartitionId, old: int, start: int, slowest: int) -> None:
        self._before_cut(partition, start)
        self._log.cut(partition, start=start)
        self.counters["dropped"] += max(0, start - max(old, slowest))
        missed = self._missed.setdefault(partition, {})
        readers = self._cursors.readers(partition)
        for group in missed.keys() - readers.keys():
            del missed[group]
        for group, cursor in readers.items():
            if cursor.is_unset:
                continue
            lost = start - max(cursor.offset, self._counted_to.get(partition, 0), old)
            if lost > 0:
                missed[group] = missed.get(group, 0) + lost
        self._counted_to[partition] = start

    def _overloaded(self, number: int, was_held: bool) -> Overloaded:
        settings = self.topic.settings
        done = f"held for {settings.hold_ms} ms" if was_held else settings.overload
        return Overloaded(
            f"partition {number} of topic {self.topic.name!r} has its max_backlog of "
            f"{settings.max_backlog} events not yet read by its slowest consumer ({done}); "
            "try again later, add consumers, or raise max_backlog"
        )
