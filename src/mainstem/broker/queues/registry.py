"""The queues that are open: found by name, used under one lock, and expired in time.

How this works: a queue is opened, with its windows as they were written down, when somebody
first asks for it. One lock for all, taken before the broker's own and never while that is held:
reading and unpacking events under it makes no group or transaction wait. Whom to wake is decided
under the lock, and done without it.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import msgspec

from mainstem.broker.callbacks import Callback, make
from mainstem.broker.journal import QUEUES, Journal
from mainstem.broker.queues.batch_cache import BatchCache
from mainstem.broker.queues.dead_letters import CreateTopic, DeadLetters
from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import (
    ChangeKey,
    Key,
    QueueChange,
    QueueKey,
    QueueSet,
    QueueSettings,
    Value,
    WindowChange,
    WindowKey,
    WindowSet,
)
from mainstem.broker.queues.replay import QueueFold
from mainstem.broker.queues.settlement import Settler
from mainstem.broker.state import State
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.errors import StorageFull, UnknownQueue
from mainstem.log.port import Durable, PartitionId

Overlay = Callable[[str, QueueSettings], QueueSettings]


class QueueRegistry:
    """Knows every queue, opens it when it is first used, and has the lock for all of them."""

    def __init__(
        self,
        state: State,
        transactions: Transactions,
        create_topic: CreateTopic,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._state = state
        self._transactions = transactions
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self.lock = threading.Lock()
        self.fold = QueueFold()
        self._cache = BatchCache()
        self._live: dict[QueueKey, LiveQueue] = {}
        self._touched: dict[QueueKey, None] = {}
        """Those to which time may bring something: all others were not used since it could not."""
        self.overlay: Overlay = lambda _, own: own
        """What is set for everything of a name, over a queue's own settings."""
        journal = Journal[Key, Value](
            state.log,
            QUEUES,
            msgspec.json.Decoder(QueueKey | WindowKey | ChangeKey).decode,
            msgspec.json.Decoder(QueueSet | WindowSet | WindowChange).decode,
        )
        journal.replay(lambda key, value: self.fold.apply([QueueChange(key, value)]))
        dead_letters = DeadLetters(state, create_topic, now_ms)
        self.settler = Settler(state, journal, self.fold, dead_letters, now_ms, monotonic_ms)
        self._put_right()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Take the lock, and make the calls that were decided on without it."""
        calls: list[Callback] = []
        try:
            with self.lock:
                try:
                    yield
                finally:
                    calls, self.settler.calls = self.settler.calls, []
        finally:
            make(calls)

    # Under the lock

    def known(self, topic: str, name: str) -> QueueKey:
        """Return the key of a queue; raises UnknownTopic, UnknownQueue."""
        key = QueueKey(name, self._state.topics.get(topic).id)
        if self.fold.get(key) is None:
            raise UnknownQueue(topic, name)
        return key

    def settings(self, key: QueueKey) -> QueueSettings | None:
        """Return how a queue behaves, None if there is no such one; needs no lock."""
        known = self.fold.get(key)
        return None if known is None else self.overlay(key.name, known.settings)

    def alter(self, key: QueueKey) -> None:
        """Let a queue behave as its settings are now."""
        live, settings = self._live.get(key), self.settings(key)
        if live is not None and settings is not None:
            self._touched[key] = None
            self.settler.calls += live.alter(settings)

    def opened(self, topic: str, name: str) -> LiveQueue:
        """Return a queue, with all partitions of its topic."""
        key = self.known(topic, name)
        found = self._state.topics.get(topic)
        live = self._live.get(key)
        if live is None:
            settings = self.settings(key)
            assert settings is not None
            live = LiveQueue(
                self._state.log,
                self._transactions,
                key,
                settings,
                self._cache,
                self._state.alarm,
            )
            self._live[key] = live
        if len(live.windows) != len(found.partitions):
            live.fit(found, self.fold)
        self._touched[key] = None
        return live

    def forget(self, keys: Collection[QueueKey]) -> Durable:
        """Forget queues, all or none, and wake who waits there."""
        durable = self.settler.write([each for key in keys for each in self.fold.remove(key)])
        for key in keys:
            live = self._live.pop(key, None)
            self.settler.calls += [] if live is None else live.take_waiting()
        return durable

    def expire(self, live: LiveQueue) -> None:
        """Take back what is out for too long, bury what was delivered too often; wake who waits."""
        is_changed = live.expire(self._monotonic_ms(), self._now_ms())
        if self.settler.bury_spent(live) or is_changed:
            self.settler.calls += live.take_waiting()

    # Time, and topics that change

    def tick(self) -> None:
        """Take back what is out for too long, and bury what was delivered too often."""
        with self.turn():
            for live in self._awaited():
                self.expire(live)

    def next_wait_ms(self) -> int | None:
        """Return how long ``tick`` may wait at most to be called again; None if for ever."""
        with self.lock:
            clocks = (self._monotonic_ms(), self._now_ms())
            waits = [live.wait_ms(*clocks) for live in self._awaited()]
        return min((wait for wait in waits if wait is not None), default=None)

    def _awaited(self) -> list[LiveQueue]:
        """Return those to which time will bring something, and look at no others from now on."""
        found = [(key, self._live[key]) for key in self._touched if key in self._live]
        awaited = {
            key: live
            for key, live in found
            if any(window.awaits_time for window in live.windows.values())
        }
        self._touched = dict.fromkeys(awaited)
        return list(awaited.values())

    def topic_changed(self, topic_id: str) -> None:
        """Take note that a topic has more partitions or other settings, or is gone."""
        with self.turn():
            is_gone = self._state.topics.by_id(topic_id) is None
            for key in [each for each in self.fold if each.topic_id == topic_id]:
                live = self._live.get(key)
                self.settler.calls += [] if live is None else live.take_waiting()
                if is_gone:
                    self.settler.write(self.fold.remove(key))
                    self._live.pop(key, None)
                else:
                    self.settler.tell_gates(self.fold.windows(key))

    def cut(self, partition: PartitionId) -> None:
        """Take note that the end of a partition was taken back, before anything is appended."""
        with self.turn():
            self._cut(partition.topic_id)

    def _put_right(self) -> None:
        """Forget queues on topics that are gone, and what a power cut took back."""
        ids = {topic.id for topic in self._state.topics}
        # A full disk must not keep the log from being opened: the next start finds them again.
        with suppress(StorageFull):
            for key in self.fold.strays(ids):
                self.settler.write(self.fold.remove(key))
        for topic_id in {key.topic_id for key in self.fold}:
            self._cut(topic_id)
        for key in self.fold:
            self.settler.tell_gates(self.fold.windows(key))

    def _cut(self, topic_id: str) -> None:
        """Take back windows that are past the end of their partition.

        Windows survive a power cut, and events of ``disk`` and ``memory`` topics may not: new
        events would get the offsets of lost ones, and be taken for settled.
        """
        topic = self._state.topics.by_id(topic_id)
        if topic is None:
            return
        for key in [each for each in self.fold if each.topic_id == topic_id]:
            for at in topic.partitions:
                end, stored = self._state.log.bounds(at).end, self.fold.window(key, at.number)
                live = self._live.get(key)
                window = live.windows.get(at.number) if live is not None else None
                if window is None:
                    window = Window(stored, None, keyed=False)
                if window.next > end:
                    window.cut(end)
                    change = WindowKey(key.name, key.topic_id, at.number)
                    self.settler.write([QueueChange(change, window.record())])
                if live is not None and at.number in live.windows:
                    # What was read ahead may be what was taken back.
                    live.windows[at.number].seen = None
                    live.begin(at.number)
            if live := self._live.get(key):
                # Who waits for the end to grow waits behind the new one.
                self.settler.calls += live.take_waiting()
