"""All queues while the broker runs: the lock they are used under, and what time brings.

How this works: a queue is opened, with its windows as they were written down, when somebody
first asks for it. One lock for all, taken before the broker's own and never while that is held:
reading and unpacking events under it makes no group or transaction wait. Whom to wake is decided
under the lock, and done without it.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import msgspec

from mainstem.broker.callbacks import Callback, make
from mainstem.broker.journal import QUEUES, Journal, Written
from mainstem.broker.queues.batch_cache import BatchCache
from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import (
    ChangeKey,
    Key,
    Order,
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
from mainstem.broker.queues.settlement import CreateTopic, Plan, Settler
from mainstem.broker.state import State
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.errors import StorageFull, UnknownQueue
from mainstem.log.port import Durable, PartitionId

Overlay = Callable[[str, QueueSettings], QueueSettings]
Planned = tuple[LiveQueue, Plan]
Answer = TypeVar("Answer")
Append = Callable[[Written], tuple[Answer, bool]]


class OpenQueues:
    """The fold, what is open of it, and the lock."""

    def __init__(
        self,
        state: State,
        transactions: Transactions,
        create_topic: CreateTopic,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self.state = state
        self._transactions = transactions
        self.now_ms = now_ms
        self.monotonic_ms = monotonic_ms
        self.lock = threading.Lock()
        self.fold = QueueFold()
        self.cache = BatchCache()
        self.live: dict[QueueKey, LiveQueue] = {}
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
        self.settler = Settler(state, journal, self.fold, create_topic, now_ms)
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
        key = QueueKey(name, self.state.topics.get(topic).id)
        if self.fold.get(key) is None:
            raise UnknownQueue(topic, name)
        return key

    def settings(self, key: QueueKey) -> QueueSettings | None:
        """Return how a queue behaves, None if there is no such one; needs no lock."""
        known = self.fold.get(key)
        return None if known is None else self.overlay(key.name, known.settings)

    def alter(self, key: QueueKey) -> None:
        """Let a queue behave as its settings are now."""
        live, settings = self.live.get(key), self.settings(key)
        if live is not None and settings is not None:
            self._touched[key] = None
            self.settler.calls += live.alter(settings)

    def opened(self, topic: str, name: str) -> LiveQueue:
        """Return a queue, with all partitions of its topic."""
        key = self.known(topic, name)
        found = self.state.topics.get(topic)
        live = self.live.get(key)
        if live is None:
            settings = self.settings(key)
            assert settings is not None
            live = LiveQueue(
                self.state.log,
                self._transactions,
                key,
                settings,
                self.cache,
                self.state.alarm,
            )
            self.live[key] = live
        if len(live.windows) != len(found.partitions):
            live.fit(found, self.fold)
        self._touched[key] = None
        return live

    def forget(self, keys: Collection[QueueKey]) -> Durable:
        """Forget queues, all or none, and wake who waits there."""
        durable = self.settler.write([each for key in keys for each in self.fold.remove(key)])
        for key in keys:
            live = self.live.pop(key, None)
            self.settler.calls += [] if live is None else live.take_waiting()
        return durable

    def expire(self, live: LiveQueue) -> None:
        """Take back what is out for too long, bury what was delivered too often; wake who waits."""
        is_changed = live.expire(self.monotonic_ms(), self.now_ms())
        if self.settler.bury_spent(live) or is_changed:
            self.settler.calls += live.take_waiting()

    def carry_out(self, live: LiveQueue, plan: Plan) -> Durable:
        """Append what was planned, make it true, and wake whom it may bring something."""
        frees = _frees(live, plan)
        durable = self.settler.carry_out(live, plan)
        self._carried_out(live, plan, frees)
        return durable

    def carry_out_with(self, plans: Sequence[Planned], append: Append[Answer]) -> Answer:
        """Carry out several plans in an append that ``append`` makes with other batches.

        It is given their batches, and returns its answer and whether it has appended anything.
        """
        prepared = [self.settler.prepare(live, plan) for live, plan in plans if plan.changes]
        frees = [_frees(live, plan) for live, plan in plans]
        answer, is_appended = append(self.settler.batches(prepared))
        if is_appended:
            self.settler.appended(prepared)
            for (live, plan), each in zip(plans, frees, strict=True):
                self._carried_out(live, plan, each)
        return answer

    def _carried_out(self, live: LiveQueue, plan: Plan, frees: bool) -> None:
        until_ms = self.monotonic_ms() + live.settings.lock_ms
        for number, offset in plan.renewed:
            live.windows[number].keep(offset, until_ms)
        self.settler.calls += live.take_waiting() if frees else []

    # Time, and topics that change

    def tick(self) -> None:
        """Take back what is out for too long, and bury what was delivered too often."""
        with self.turn():
            for live in self._awaited():
                self.expire(live)

    def next_wait_ms(self) -> int | None:
        """Return how long ``tick`` may wait at most to be called again; None if for ever."""
        with self.lock:
            clocks = (self.monotonic_ms(), self.now_ms())
            waits = [live.wait_ms(*clocks) for live in self._awaited()]
        return min((wait for wait in waits if wait is not None), default=None)

    def _awaited(self) -> list[LiveQueue]:
        """Return those to which time will bring something, and look at no others from now on."""
        found = [(key, self.live[key]) for key in self._touched if key in self.live]
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
            is_gone = self.state.topics.by_id(topic_id) is None
            for key in [each for each in self.fold if each.topic_id == topic_id]:
                live = self.live.get(key)
                self.settler.calls += [] if live is None else live.take_waiting()
                if is_gone:
                    self.settler.write(self.fold.remove(key))
                    self.live.pop(key, None)
                else:
                    self.settler.tell_gates(self.fold.windows(key))

    def cut(self, partition: PartitionId) -> None:
        """Take note that the end of a partition was taken back, before anything is appended."""
        with self.turn():
            self._cut(partition.topic_id)

    def _put_right(self) -> None:
        """Forget queues on topics that are gone, and what a power cut took back."""
        ids = {topic.id for topic in self.state.topics}
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
        topic = self.state.topics.by_id(topic_id)
        if topic is None:
            return
        for key in [each for each in self.fold if each.topic_id == topic_id]:
            for at in topic.partitions:
                end, stored = self.state.log.bounds(at).end, self.fold.window(key, at.number)
                live = self.live.get(key)
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
            if live := self.live.get(key):
                # Who waits for the end to grow waits behind the new one.
                self.settler.calls += live.take_waiting()


def _frees(live: LiveQueue, plan: Plan) -> bool:
    """Tell whether a plan may give something to those who wait."""
    return live.settings.order is Order.KEY or any(
        len(live.windows[number].entries) >= live.settings.max_unsettled
        or any(change is not None for change in changes.values())
        for number, changes in plan.changes.items()
    )
