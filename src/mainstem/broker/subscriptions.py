"""Fine subscriptions: consumers that share the events of a topic one by one, each settled once.

How this works: ``acquire`` hands events to an owner, first those to be delivered again, then fresh
ones, and writes nothing. ``settle`` decides what becomes of deliveries, appends the windows as they
will be, with the dead letters in the same append, and then makes it true. What is not settled in
time goes to the next owner who asks. Owners are whatever a head makes of its consumers; they are
not written down, so after a restart nothing is out.

One lock for all subscriptions, taken before the broker's own and never while that is held: reading
and unpacking events under it makes no group or transaction wait.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from mainstem.broker.journal import SUBSCRIPTIONS, Journal
from mainstem.broker.live_subscription import LiveSubscription, Unsettled
from mainstem.broker.settling import Call, CreateTopic, Plan, Settling
from mainstem.broker.state import State
from mainstem.broker.subscription import (
    Delivery,
    Key,
    Settlement,
    SubscriptionChange,
    SubscriptionKey,
    SubscriptionSet,
    SubscriptionSettings,
    Value,
    WindowKey,
    WindowSet,
)
from mainstem.broker.subscription_fold import SubscriptionFold
from mainstem.broker.subscription_states import SubscriptionState, described
from mainstem.broker.transactions import Transactions
from mainstem.broker.window import Back, Window
from mainstem.core.dead_letters import topic_of
from mainstem.core.errors import (
    MainstemError,
    OffsetOutOfRange,
    StaleDelivery,
    UnknownPartition,
    UnknownSubscription,
    UnknownTopic,
)
from mainstem.core.names import check_topic
from mainstem.log.port import Durable, PartitionId

DEFAULTS = SubscriptionSettings()
MAX_BYTES = 1024 * 1024


class Settled(NamedTuple):
    """When settlements are durable, and which were refused, by their place in the request."""

    durable: Durable
    refused: dict[int, MainstemError]


class Subscriptions:
    """The door to fine subscriptions; synchronous and thread-safe."""

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
        self._lock = threading.Lock()
        self.fold = SubscriptionFold()
        self._live: dict[SubscriptionKey, LiveSubscription] = {}
        self._leases = 0
        journal = Journal[Key, Value](
            state.log,
            SUBSCRIPTIONS,
            msgspec.json.Decoder(SubscriptionKey | WindowKey).decode,
            msgspec.json.Decoder(SubscriptionSet | WindowSet).decode,
        )
        journal.replay(lambda key, value: self.fold.apply([SubscriptionChange(key, value)]))
        self._settling = Settling(state, journal, self.fold, create_topic, now_ms)
        self._put_right()

    # Which there are

    def create(
        self,
        topic: str,
        name: str,
        settings: SubscriptionSettings = DEFAULTS,
        starts: Mapping[int, int] | None = None,
    ) -> Durable:
        """Create a subscription, or give one that is there other settings.

        ``starts``: the offset to begin with in each partition, the earliest where there is none.
        """
        found = self._state.topics.get(topic)
        if settings.dead_letters and settings.max_deliveries is not None:
            check_topic(topic_of(topic))
        begins = {at.number: self._state.log.bounds(at).start for at in found.partitions}
        begins |= starts or {}
        key = SubscriptionKey(name, found.id)
        with self._turn():
            changes = self.fold.set(key, settings, begins, self._now_ms())
            durable = self._settling.write(changes)
            live = self._live.get(key)
            self._settling.calls += [] if live is None else live.alter(settings)
        return durable

    def delete(self, topic: str, name: str) -> Durable:
        """Forget a subscription; what was out cannot be settled any more."""
        with self._turn():
            key = self._known(topic, name)
            durable = self._settling.write(self.fold.remove(key))
            live = self._live.pop(key, None)
            self._settling.calls += [] if live is None else live.take_waiting()
        return durable

    def seek(self, topic: str, name: str, offsets: Mapping[int, int]) -> Durable:
        """Go on from other offsets, forward or back; what is out there cannot be settled any more.

        Raises OffsetOutOfRange, UnknownPartition; nothing was moved then.
        """
        with self._turn():
            live = self._opened(topic, name)
            changes: list[SubscriptionChange] = []
            for number, offset in offsets.items():
                start, tail = self._state.log.bounds(self._state.at(topic, number))[:2]
                if not start <= offset <= tail:
                    place = f"partition {number} of topic {topic!r}"
                    raise OffsetOutOfRange(place, offset, start, tail)
                key = WindowKey(name, live.key.topic_id, number)
                missed = live.windows[number].missed
                changes.append(SubscriptionChange(key, WindowSet(offset, missed=missed)))
            durable = self._settling.write(changes)
            for number in offsets:
                live.move(number, self.fold.window(live.key, number))
            self._settling.calls += live.take_waiting()
        return durable

    def settings(self, topic: str, name: str) -> SubscriptionSettings | None:
        """Return the settings of a subscription, None if there is no such subscription."""
        found = self.fold.get(SubscriptionKey(name, self._state.topics.get(topic).id))
        return None if found is None else found.settings

    def show(self, topic: str, name: str) -> SubscriptionState:
        """Return how a subscription stands; raises UnknownSubscription."""
        with self._lock:
            return described(self._opened(topic, name), self._state.log)

    def every(self) -> list[SubscriptionState]:
        """Return every subscription, by topic and name."""
        with self._lock:
            found = [(self._state.topics.by_id(key.topic_id), key.name) for key in self.fold]
            names = sorted((topic.name, name) for topic, name in found if topic is not None)
            return [described(self._opened(*each), self._state.log) for each in names]

    def peek(self, topic: str, name: str, limit: int) -> list[Unsettled]:
        """Return the first events of each partition that are not settled, and give none out."""
        with self._turn():
            live = self._opened(topic, name)
            self._expire(live)
            return live.peek(limit)

    # Deliveries

    def acquire(
        self,
        topic: str,
        name: str,
        owner: str,
        *,
        max_events: int = 1,
        max_bytes: int = MAX_BYTES,
        credit: int | None = None,
    ) -> list[Delivery]:
        """Hand events to an owner, none if there are none now; at least one whatever its size.

        ``credit``: how many may be out with this owner at most, these included.
        """
        with self._turn():
            live = self._opened(topic, name)
            self._expire(live)
            if credit is not None:
                max_events = min(max_events, credit - live.out_with(owner))
            deliveries: list[Delivery] = []
            until_ms = self._monotonic_ms() + live.settings.lock_ms
            try:
                for window, event in live.choose(max_events, max_bytes):
                    self._leases += 1
                    entry = window.give(event.offset, owner, self._leases, until_ms)
                    deliveries.append(Delivery(event, entry.deliveries, self._leases, until_ms))
            except UnknownPartition:
                raise UnknownTopic(topic) from None
            except MainstemError:
                # What was given is given; the next call meets the error again.
                if not deliveries:
                    raise
            return deliveries

    def settle(
        self, topic: str, name: str, owner: str, settlements: Sequence[Settlement]
    ) -> Settled:
        """Settle deliveries of an owner, in one append; those that are not its own are refused.

        Raises StorageFull with nothing changed.
        """
        with self._turn():
            live = self._opened(topic, name)
            plan, refused = Plan(), dict[int, MainstemError]()
            for place, each in enumerate(settlements):
                try:
                    self._settling.decide(live, owner, each, plan)
                except StaleDelivery as error:
                    refused[place] = error
            durable = self._settling.carry_out(live, plan)
            self._settling.calls += live.take_waiting() if plan.changes else []
        return Settled(durable, refused)

    def renew(
        self, topic: str, name: str, owner: str, deliveries: Iterable[Settlement]
    ) -> dict[int, MainstemError]:
        """Let an owner keep deliveries for another ``lock_ms`` from now; return what was refused.

        Nothing is written: only partition, offset and lease of the settlements are looked at.
        """
        refused: dict[int, MainstemError] = {}
        with self._turn():
            live = self._opened(topic, name)
            self._expire(live)
            for place, each in enumerate(deliveries):
                try:
                    window = self._settling.held(live, owner, each)
                    until_ms = self._monotonic_ms() + live.settings.lock_ms
                    window.locks.set(each.offset, until_ms)
                except StaleDelivery as error:
                    refused[place] = error
        return refused

    def leave(self, topic: str, name: str, owner: str) -> Durable:
        """Release everything that is out with an owner."""
        with self._turn():
            live = self._opened(topic, name)
            plan = Plan()
            for number, window in live.windows.items():
                for offset in list(window.held_by(owner)):
                    plan.set(number, offset, Back(window.entries[offset].deliveries - 1))
            durable = self._settling.carry_out(live, plan)
            self._settling.calls += live.take_waiting() if plan.changes else []
        return durable

    def watch(self, topic: str, name: str, wake: Call) -> Call:
        """Call ``wake`` once there may be something to acquire that was not there before.

        Acquire before, or else the ends of the partitions are not known, and once more after, as
        something may have happened in between. Calls come from any thread, perhaps more than one,
        and while the lock is held: ``wake`` leaves a note and calls nothing here. What time brings
        does not wake: see ``wait_ms``. Returns what takes the watch back.
        """
        with self._lock:
            live = self._opened(topic, name)
            return live.watch(wake)

    def wait_ms(self, topic: str, name: str) -> int | None:
        """Return when time will bring something to a subscription, None if never."""
        with self._lock:
            live = self._opened(topic, name)
            return live.wait_ms(self._monotonic_ms(), self._now_ms())

    # Time, and topics that change

    def tick(self) -> None:
        """Take back what is out for too long, and bury what was delivered too often."""
        with self._turn():
            for live in self._live.values():
                if self._expire(live):
                    self._settling.calls += live.take_waiting()

    def next_wait_ms(self) -> int | None:
        """Return how long ``tick`` may wait at most to be called again; None if for ever."""
        with self._lock:
            clocks = (self._monotonic_ms(), self._now_ms())
            waits = [live.wait_ms(*clocks) for live in self._live.values()]
        return min((wait for wait in waits if wait is not None), default=None)

    def topic_changed(self, topic_id: str) -> None:
        """Take note that a topic has more partitions or other settings, or is gone."""
        with self._turn():
            is_gone = self._state.topics.by_id(topic_id) is None
            for key in [each for each in self.fold if each.topic_id == topic_id]:
                live = self._live.get(key)
                self._settling.calls += [] if live is None else live.take_waiting()
                if is_gone:
                    self._settling.write(self.fold.remove(key))
                    self._live.pop(key, None)
                else:
                    self._settling.tell_gates(self.fold.windows(key))

    def cut(self, partition: PartitionId) -> None:
        """Take note that the end of a partition was taken back, before anything is appended."""
        with self._turn():
            self._cut(partition.topic_id)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the lock, and make the calls that were decided on without it."""
        calls: list[Call] = []
        try:
            with self._lock:
                try:
                    yield
                finally:
                    calls, self._settling.calls = self._settling.calls, []
        finally:
            for call in calls:
                call()

    # Parts of decisions, under the lock

    def _known(self, topic: str, name: str) -> SubscriptionKey:
        key = SubscriptionKey(name, self._state.topics.get(topic).id)
        if self.fold.get(key) is None:
            raise UnknownSubscription(topic, name)
        return key

    def _opened(self, topic: str, name: str) -> LiveSubscription:
        key = self._known(topic, name)
        found = self._state.topics.get(topic)
        live = self._live.get(key)
        if live is None:
            known = self.fold.get(key)
            assert known is not None
            live = LiveSubscription(self._state.log, self._transactions, key, known.settings)
            self._live[key] = live
        if len(live.windows) != len(found.partitions):
            live.grow(found, self.fold)
        return live

    def _expire(self, live: LiveSubscription) -> bool:
        """Take back what is out for too long; return whether there is anything new to acquire."""
        is_changed = live.expire(self._monotonic_ms(), self._now_ms())
        return self._settling.bury_spent(live) or is_changed

    def _put_right(self) -> None:
        """Forget subscriptions on topics that are gone, and what a power cut took back."""
        ids = {topic.id for topic in self._state.topics}
        for key in self.fold.strays(ids):
            self._settling.write(self.fold.remove(key))
        for topic_id in {key.topic_id for key in self.fold}:
            self._cut(topic_id)
        for key in self.fold:
            self._settling.tell_gates(self.fold.windows(key))

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
                    self._settling.write([SubscriptionChange(change, window.record())])
                if live is not None and at.number in live.windows:
                    # What was read ahead may be what was taken back.
                    live.begin(at.number)
