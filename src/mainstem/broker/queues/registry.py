"""Registry of open queues: finds them by name, and holds their common lock.

How this works: a queue is opened, with its stored state, when it is first used. All queues share
one lock. It is taken before the broker's own lock and never while that one is held, so that reading
and decoding events under it delays no group or transaction. Callbacks that wake consumers are
collected under the lock and called without it.
"""

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from mainstem.broker.callbacks import Callback, make
from mainstem.broker.journal import QUEUES, Journal
from mainstem.broker.queues.dead_letters import CreateTopic, DeadLetters
from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.lock_expiry import LockExpiry
from mainstem.broker.queues.reader import Source
from mainstem.broker.queues.records import (
    ChangeKey,
    Key,
    QueueChange,
    QueueKey,
    QueueSet,
    QueueSettings,
    RunKey,
    RunSet,
    Value,
    WindowChange,
    WindowKey,
    WindowSet,
)
from mainstem.broker.queues.replay import QueueFold
from mainstem.broker.queues.settlement import Settler
from mainstem.broker.state import State
from mainstem.core.errors import StorageFull, UnknownQueue
from mainstem.log.port import Durable, PartitionId

Overlay = Callable[[str, QueueSettings], QueueSettings]


class UnsettledOffsets(NamedTuple):
    """The events of a partition not settled by some queue: from ``next`` on, and in ``offsets``."""

    next: int
    offsets: Collection[int]

    @property
    def first(self) -> int:
        """The first unsettled offset."""
        return min(self.next, min(self.offsets, default=self.next))

    def count_before(self, offset: int) -> int:
        """Return the number of unsettled events before an offset; it must not be above ``next``."""
        return sum(each < offset for each in self.offsets)


class _Turn:
    """Context manager that holds the lock of all queues; see ``QueueRegistry.turn``."""

    __slots__ = ("_registry",)

    def __init__(self, registry: "QueueRegistry") -> None:
        self._registry = registry

    def __enter__(self) -> None:
        self._registry.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._registry.end_turn()


class _QueueTurn:
    """Context manager that holds the lock and opens a queue; see ``QueueRegistry.using``.

    Not a generator, which would be slower: it is entered for every delivery.
    """

    __slots__ = ("_expire", "_limits", "_name", "_registry", "_topic")

    def __init__(
        self, registry: "QueueRegistry", topic: str, name: str, expire: bool, limits: bool
    ) -> None:
        self._registry = registry
        self._topic, self._name = topic, name
        self._expire, self._limits = expire, limits

    def __enter__(self) -> LiveQueue:
        registry = self._registry
        registry.lock.acquire()
        try:
            live = registry.opened(self._topic, self._name)
            if self._expire:
                registry.lock_expiry.expire(live)
            if self._limits:
                registry.lock_expiry.enforce_limits(live)
        except BaseException:
            registry.end_turn()
            raise
        return live

    def __exit__(self, *_: object) -> None:
        self._registry.end_turn()


class QueueRegistry:
    """Opens queues when they are first used; owns the lock for all queues."""

    def __init__(
        self, state: State, source: Source, create_topic: CreateTopic, *, crashed: bool
    ) -> None:
        self._state = state
        self._source = source
        self.lock = threading.Lock()
        self._turn = _Turn(self)
        self.fold = QueueFold()
        self._live: dict[QueueKey, LiveQueue] = {}
        self.deletions: dict[str, Callable[[str], None]] = {}
        """Functions to call with the name of each deleted queue, by watcher."""
        self.overlay: Overlay = lambda _, own: own
        """Returns a queue's effective settings from its name and its own settings."""
        journal = Journal[Key, Value](
            state.log,
            QUEUES,
            QueueKey | WindowKey | ChangeKey | RunKey,
            QueueSet | WindowSet | WindowChange | RunSet,
        )
        journal.replay(lambda key, value: self.fold.apply([QueueChange(key, value)]))
        self.dead_letters = DeadLetters(state, create_topic)
        self.settler = Settler(state, journal, self.fold, self.dead_letters)
        self.lock_expiry = LockExpiry(state, self.settler, self._find)
        self._put_right()
        for key in self.fold:
            if self.is_limited(key):
                self.lock_expiry.grew(key)
        run = self.fold.run
        stopped = () if run is None else run.unsure
        has_crashed = crashed or (run is not None and run.is_running)
        self._unsure = dict.fromkeys(self.fold if has_crashed else stopped)
        """Queues whose events may have been in flight when an earlier process crashed."""

    def turn(self) -> "_Turn":
        """Return a context manager: it holds the lock, and then calls the collected callbacks."""
        return self._turn

    def using(
        self, topic: str, name: str, *, expire: bool = False, limits: bool = False
    ) -> _QueueTurn:
        """Return a context manager like ``turn`` that yields an open queue.

        Entering it raises UnknownTopic or UnknownQueue.

        ``expire``: first take back events whose lock has ended, and make ready those whose delay
        has ended. ``limits``: first remove the events that exceed the queue's limits.
        """
        return _QueueTurn(self, topic, name, expire, limits)

    def end_turn(self) -> None:
        """Update deadlines, release the lock, and call the collected callbacks."""
        calls: list[Callback] = []
        try:
            self.lock_expiry.set_deadlines()
            calls, self.settler.calls = self.settler.calls, []
        finally:
            self.lock.release()
            make(calls)

    # The following are called under the lock

    def known(self, topic: str, name: str) -> QueueKey:
        """Return the key of a queue; raises UnknownTopic, UnknownQueue."""
        key = QueueKey(name, self._state.topics.get(topic).id)
        if self.fold.get(key) is None:
            raise UnknownQueue(topic, name)
        return key

    def settings(self, key: QueueKey) -> QueueSettings | None:
        """Return a queue's effective settings, None if there is no such queue; needs no lock."""
        known = self.fold.get(key)
        return None if known is None else self.overlay(key.name, known.settings)

    def alter(self, key: QueueKey) -> None:
        """Apply the current settings of a queue, after they were changed, to its open state."""
        live, settings = self._live.get(key), self.settings(key)
        if self.is_limited(key):
            self.lock_expiry.grew(key)
        if live is not None and settings is not None:
            self.lock_expiry.note_used(live)
            self.settler.calls += live.alter(settings)

    def unsettled(self, at: PartitionId, tail: int) -> UnsettledOffsets:
        """Return the events of a partition that some queue has not settled; under the lock."""
        next_offset, offsets = tail, set[int]()
        for key in self.fold.on_topic(at.topic_id):
            live = self._live.get(key)
            window = None if live is None else live.windows.get(at.number)
            if window is not None:
                offsets.update(window.entries)
                next_offset = min(next_offset, window.next)
                continue
            stored = self.fold.window(key, at.number)
            for left in stored.left:
                offsets.update(range(left.first, left.last + 1))
            next_offset = min(next_offset, stored.next)
        return UnsettledOffsets(next_offset, offsets)

    def is_limited(self, key: QueueKey) -> bool:
        """Tell whether a queue's settings can expire or drop events that were never delivered."""
        settings = self.settings(key)
        return settings is not None and settings.is_limited

    def opened(self, topic: str, name: str) -> LiveQueue:
        """Return a queue, opened if needed, with state for all partitions of its topic."""
        key = self.known(topic, name)
        found = self._state.topics.get(topic)
        live = self._live.get(key)
        if live is None:
            settings = self.settings(key)
            assert settings is not None
            live = LiveQueue(self._source, key, settings, self._state.alarm)
            self._live[key] = live
            self._note_run(is_running=True)
            if key in self._unsure:
                del self._unsure[key]
                live.fit(found, self.fold)
                live.be_unsure()
        if len(live.windows) != len(found.partitions):
            live.fit(found, self.fold)
        self.lock_expiry.note_used(live)
        return live

    def _find(self, key: QueueKey) -> LiveQueue | None:
        """Return a queue by its key, None if it was deleted."""
        topic = self._state.topics.by_id(key.topic_id)
        if topic is None or self.fold.get(key) is None:
            return None
        return self.opened(topic.name, key.name)

    def close(self) -> None:
        """Store that this process stops, and the queues that an earlier crash left uncertain.

        Those queues have events that may have been in flight at that crash.
        """
        with self.lock:
            unsure = {key for key, live in self._live.items() if live.is_unsure}.union(self._unsure)
            left = tuple(key for key in self.fold if key in unsure)
            self._note_run(is_running=False, unsure=left)

    def _note_run(self, *, is_running: bool, unsure: tuple[QueueKey, ...] = ()) -> None:
        """Store whether this process uses queues, by which the next start detects a crash."""
        # Nothing is in flight if no process ever used a queue.
        was_running = self.fold.run is not None and self.fold.run.is_running
        if was_running != is_running:
            # A full disk must not prevent the use; the next opened queue retries.
            with suppress(StorageFull):
                run = RunSet(is_running, unsure)
                self.settler.write([QueueChange(RunKey(), run)]).hand_over()

    def forget(self, keys: Collection[QueueKey]) -> Durable:
        """Delete queues, all or none, and wake the consumers that wait for their events."""
        durable = self.settler.write([each for key in keys for each in self.fold.remove(key)])
        for key in keys:
            self.settler.calls += [*self._close(key), *self._told(key)]
        return durable

    # The following take the lock themselves

    def tick(self) -> None:
        """Act on locks and delays that have ended; see ``LockExpiry.tick``."""
        with self.turn():
            self.lock_expiry.tick()

    def next_wait_ms(self) -> int | None:
        """Return the ms until ``tick`` is next due; None if there is no deadline."""
        with self.lock:
            return self.lock_expiry.next_wait_ms()

    def topic_changed(self, topic_id: str) -> None:
        """Update queues after their topic was deleted or altered."""
        with self.turn():
            is_gone = self._state.topics.by_id(topic_id) is None
            for key in self.fold.on_topic(topic_id):
                if is_gone:
                    self.settler.calls += self._close(key)
                    self.settler.write(self.fold.remove(key))
                    self.settler.calls += self._told(key)
                    continue
                if (live := self._live.get(key)) is not None:
                    self.settler.calls += live.take_waiting()
                self.settler.tell_gates(self.fold.windows(key))

    def _close(self, key: QueueKey) -> list[Callback]:
        """Close a deleted queue; return the callbacks of its waiting consumers."""
        live = self._live.pop(key, None)
        if live is None:
            return []
        self.lock_expiry.note_used(live)
        live.close()
        return live.take_waiting()

    def _told(self, key: QueueKey) -> list[Callback]:
        """Return callbacks that call the watchers of ``watch_deletions`` with a queue's name."""
        return [partial(each, key.name) for each in self.deletions.values()]

    def cut(self, partition: PartitionId) -> None:
        """Drop queue state beyond the end of a truncated partition, before it is appended to."""
        with self.turn():
            self._cut(partition.topic_id)

    def _put_right(self) -> None:
        """Delete queues of deleted topics; in others drop the state of events that were lost."""
        ids = {topic.id for topic in self._state.topics}
        # A full disk must not prevent opening the log; the next start tries again.
        with suppress(StorageFull):
            for key in self.fold.strays(ids):
                self.settler.write(self.fold.remove(key))
        for topic_id in self.fold.topic_ids():
            self._cut(topic_id)
        if self._state.gates:
            for key in self.fold:
                self.settler.tell_gates(self.fold.windows(key))

    def _cut(self, topic_id: str) -> None:
        """Drop queue state beyond the end of its partition.

        Queue state survives a power cut, but events of ``disk`` and ``memory`` topics may not. New
        events would reuse the offsets of lost ones and be treated as settled.
        """
        topic = self._state.topics.by_id(topic_id)
        if topic is None:
            return
        for key in self.fold.on_topic(topic_id):
            for at in topic.partitions:
                live, stored = self._live.get(key), self.fold.window(key, at.number)
                if live is None and not stored.next:
                    # Nothing is settled, so no state can be beyond the end.
                    continue
                end = self._state.log.bounds(at).end
                window = live.windows.get(at.number) if live is not None else None
                if window is None:
                    window = Window(stored, None, keyed=False)
                if window.next > end:
                    window.cut(end)
                    change = WindowKey(key.name, key.topic_id, at.number)
                    self.settler.write([QueueChange(change, window.record())])
                if live is not None and at.number in live.windows:
                    # The reader's buffer may hold truncated events.
                    live.windows[at.number].seen = None
                    live.begin(at.number)
            if live := self._live.get(key):
                # Consumers that watch the old tail must watch the new one.
                self.settler.calls += live.take_waiting()
