"""Queues: consumers share the events of a topic one by one; each event is settled once.

How this works: ``acquire`` delivers events to an owner, redeliveries first, then fresh ones.
``settle`` decides on the outcome of deliveries, appends the changed windows and the dead letters in
one append, and then applies the changes. An event whose lock expires goes to the next owner that
calls ``acquire``. Heads choose the owners' names, one per consumer. Owners are not stored, so no
event is in flight after a restart.

Deliveries are not stored either, as that would cost a write per delivery. But an event that crashes
the broker's process, because it is processed there, must not be redelivered for ever. So after a
crash, ``acquire`` with ``noted`` stores the delivery counts of events that may have been in flight,
before it delivers them again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainstem.broker.callbacks import Callback
from mainstem.broker.queues.batch_cache import BatchCache
from mainstem.broker.queues.dead_letters import CreateTopic, DeadLetterRouter
from mainstem.broker.queues.delivery_state import Redelivery, Window
from mainstem.broker.queues.description import QueueState, described
from mainstem.broker.queues.limits import expiry_ms
from mainstem.broker.queues.live_queue import LiveQueue, Unsettled
from mainstem.broker.queues.reader import Source
from mainstem.broker.queues.records import (
    AcquiredBatches,
    AcquiredRecords,
    Delivery,
    Outcome,
    QueueChange,
    QueueKey,
    QueueSettings,
    Settlement,
    WindowKey,
    WindowSet,
)
from mainstem.broker.queues.registry import Overlay, QueueRegistry
from mainstem.broker.queues.settlement import Answer, Append, Plan, Planned
from mainstem.broker.state import State
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.dead_letters import topic_of
from mainstem.core.errors import (
    MainstemError,
    OffsetOutOfRange,
    StaleDelivery,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)
from mainstem.core.event import Event, Position
from mainstem.core.names import check_topic
from mainstem.log.port import Durable, PartitionId

DEFAULTS = QueueSettings()
MAX_BYTES = 1024 * 1024


class Settled(NamedTuple):
    """Result of settlements: when they are durable, and the errors of refused ones by index."""

    durable: Durable
    refused: dict[int, MainstemError]


class QueueSettlements(NamedTuple):
    """The settlements of one owner in one queue."""

    topic: str
    queue: str
    owner: str
    settlements: Sequence[Settlement]


class Queues:
    """The public interface of queues; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        transactions: Transactions,
        create_topic: CreateTopic,
        first_lease: int,
        *,
        crashed: bool,
    ) -> None:
        """``first_lease``: a random number, so that leases of an earlier process are not accepted.

        ``crashed``: the previous process that used this log ended without closing it.
        """
        self._state = state
        self._now_ms, self._monotonic_ms = state.clocks
        source = Source(state.log, transactions, BatchCache())
        self.registry = QueueRegistry(state, source, create_topic, crashed=crashed)
        """The open queues, for broker modules that maintain all of them, such as retention."""
        self._settler = self.registry.settler
        self._lock_expiry = self.registry.lock_expiry
        self.fold = self.registry.fold
        self._leases = first_lease

    # Create, change, delete and list queues

    def create(
        self,
        topic: str,
        name: str,
        settings: QueueSettings = DEFAULTS,
        starts: Mapping[int, int] | None = None,
    ) -> Durable:
        """Create a queue, or change the settings of an existing one.

        ``starts``: the offset by partition number at which a new queue starts; a partition that is
        absent starts at its first event.
        """
        found = self._state.topics.get(topic)
        if settings.dead_letters and settings.max_deliveries is not None:
            check_topic(topic_of(topic))
        begins = {at.number: self._state.log.bounds(at).start for at in found.partitions}
        begins |= starts or {}
        key = QueueKey(name, found.id)
        with self.registry.turn():
            changes = self.fold.set(key, settings, begins, self._now_ms())
            durable = self._settler.write(changes)
            for at in found.partitions:
                self._state.keep_all(at)
            self.registry.alter(key)
        return durable

    def route_dead_letters(self, router: DeadLetterRouter) -> None:
        """Register the function that routes dead letters of queues with a ``dead_letter_route``.

        ``router`` is called under the queues' lock.
        """
        self.registry.dead_letters.router = router

    def watch_deletions(self, watcher: str, deleted: Callable[[str], None]) -> None:
        """Call ``deleted`` with the name of each deleted queue, also if its topic was deleted."""
        self.registry.deletions[watcher] = deleted

    def lay_over(self, overlay: Overlay) -> None:
        """Register a function that returns a queue's effective settings.

        Its arguments are the queue's name and own settings.
        """
        self.registry.overlay = overlay

    def overlay_changed(self, name: str) -> None:
        """Apply changed overrides of settings to the open queues of this name."""
        with self.registry.turn():
            for key in self.fold.named(name):
                self.registry.alter(key)

    def delete(self, topic: str, name: str) -> Durable:
        """Delete a queue; deliveries in flight can no longer be settled."""
        with self.registry.turn():
            return self.registry.forget([self.registry.known(topic, name)])

    def delete_on(
        self, topics: Iterable[str], name: str
    ) -> tuple[Durable, dict[str, MainstemError]]:
        """Delete the queues of a name on some topics, in one append.

        Also returns the topics that have no queue of that name, each with its error.
        """
        with self.registry.turn():
            keys, refused = dict[QueueKey, None](), dict[str, MainstemError]()
            for topic in topics:
                try:
                    keys[self.registry.known(topic, name)] = None
                except (UnknownTopic, UnknownQueue) as error:
                    refused[topic] = error
            return self.registry.forget(keys), refused

    def delete_all(self, name: str) -> Durable:
        """Delete the queues of a name on all topics, in one append."""
        with self.registry.turn():
            return self.registry.forget(self.fold.named(name))

    def seek(self, topic: str, name: str, offsets: Mapping[int, int]) -> Durable:
        """Set a queue's offsets, forward or back; deliveries in flight there become stale.

        Raises OffsetOutOfRange or UnknownPartition, in which case nothing was moved.
        """
        with self.registry.using(topic, name) as live:
            changes: list[QueueChange] = []
            for number, offset in offsets.items():
                self.check_offset(topic, number, offset)
                key = WindowKey(name, live.key.topic_id, number)
                missed = live.windows[number].missed
                changes.append(QueueChange(key, WindowSet(offset, missed=missed)))
            durable = self._settler.write(changes)
            for number in offsets:
                self._state.keep_all(PartitionId(live.key.topic_id, number))
                live.move(number, self.fold.window(live.key, number))
            self._settler.calls += live.take_waiting()
        return durable

    def purge(self, topic: str, name: str) -> tuple[int, Durable]:
        """Settle all visible events that are not in flight; return their number."""
        with self.registry.using(topic, name) as live:
            count, changes = 0, list[QueueChange]()
            tails: dict[int, int] = {}
            for number, window in live.windows.items():
                tails[number] = tail = max(window.next, live.keep_within(number).tail)
                waiting = window.waiting()
                count += len(waiting) + tail - window.next
                after = msgspec.structs.replace(window.record(dict.fromkeys(waiting)), next=tail)
                changes.append(QueueChange(WindowKey(name, live.key.topic_id, number), after))
            durable = self._settler.write(changes)
            for number, tail in tails.items():
                live.skip(number, tail)
            if live.topic.settings.delete_acked:
                self._settler.note_settled(live.key.topic_id)
            self._settler.calls += live.take_waiting()
        return count, durable

    def check_offset(self, topic: str, partition: int, offset: int) -> None:
        """Raise OffsetOutOfRange or UnknownPartition if a queue cannot continue at an offset."""
        start, tail = self._state.log.bounds(self._state.at(topic, partition))[:2]
        if not start <= offset <= tail:
            place = f"partition {partition} of topic {topic!r}"
            raise OffsetOutOfRange(place, offset, start, tail)

    def settings(self, topic: str, name: str) -> QueueSettings | None:
        """Return a queue's effective settings, None if there is no such queue."""
        return self.registry.settings(QueueKey(name, self._state.topics.get(topic).id))

    def created_with(self, topic: str, name: str) -> QueueSettings | None:
        """Return the settings a queue was created with, None if there is no such queue."""
        found = self.fold.get(QueueKey(name, self._state.topics.get(topic).id))
        return None if found is None else found.settings

    def show(self, topic: str, name: str) -> QueueState:
        """Return a queue's state; raises UnknownQueue."""
        with self.registry.using(topic, name, expire=True, limits=True) as live:
            return described(live)

    def waiting_bytes(self, topic: str, name: str) -> int:
        """Return the total size in bytes of the values of visible events that were never delivered.

        To measure them, each value is read from the log once.
        """
        with self.registry.using(topic, name, expire=True, limits=True) as live:
            return live.waiting_bytes()

    def every(self, name: str | None = None) -> list[QueueState]:
        """Return the state of every queue, or of those with one name, ordered by topic and name."""
        with self.registry.lock:
            keys = list(self.fold) if name is None else self.fold.named(name)
            found = [(self._state.topics.by_id(key.topic_id), key.name) for key in keys]
            names = sorted((topic.name, name) for topic, name in found if topic is not None)
            return [described(self.registry.opened(*each)) for each in names]

    def names(self) -> set[str]:
        """Return the names of all queues, across topics."""
        with self.registry.lock:
            return self.fold.names()

    def peek(
        self, topic: str, name: str, limit: int, after: Position | None = None
    ) -> list[Unsettled]:
        """Return the first unsettled events, or those after a position, without delivering them."""
        with self.registry.using(topic, name, expire=True, limits=True) as live:
            return live.peek(limit, after)

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
        noted: bool = False,
        locked: bool = True,
    ) -> list[Delivery]:
        """Deliver available events to an owner (a consumer); the first event whatever its size.

        ``credit``: the maximum number in flight with this owner, including these. ``locked``: if
        True, the queue takes back events that are not settled within ``lock_ms``; if False, this
        owner keeps them until it settles them or leaves. ``noted``: before delivering events that
        may have been in flight when a process crashed, store their delivery counts, so that a
        second crash does not lose them.
        """
        with self.registry.using(topic, name, expire=True) as live:
            if credit is not None:
                max_events = min(max_events, credit - live.out_with(owner))
            deliveries: list[Delivery] = []
            until_ms = self._monotonic_ms() + live.settings.lock_ms if locked else None
            try:
                for window, event in self._unexpired(live, max_events, max_bytes):
                    self._leases += 1
                    entry = window.give(event.offset, owner, self._leases, until_ms)
                    live.redelivered += entry.deliveries > 1
                    deliveries.append(
                        Delivery(event, entry.deliveries, self._leases, until_ms, entry.redelivered)
                    )
            except UnknownPartition:
                raise UnknownTopic(topic) from None
            except MainstemError:
                # Events delivered so far stay delivered; the next call raises the error again.
                if not deliveries:
                    raise
            if noted and live.settings.max_deliveries is not None:
                self._settler.note(live, {each.event.partition for each in deliveries})
            return deliveries

    def _unexpired(
        self, live: LiveQueue, max_events: int, max_bytes: int
    ) -> Iterator[tuple[Window, Event]]:
        """Yield the events that may be delivered now; write expired ones as dead letters."""
        if not live.settings.is_limited:
            yield from live.choose(max_events, max_bytes)
            return
        self._lock_expiry.look_soon(live)
        if live.settings.has_length:
            self._lock_expiry.enforce_limits(live)
        now_ms, settings = self._now_ms(), live.settings
        while max_events > 0 and max_bytes > 0:
            plan: Plan | None = None
            for window, event in live.choose(max_events, max_bytes):
                expires_ms = expiry_ms(settings, event, window)
                if expires_ms is not None and expires_ms <= now_ms:
                    plan = plan or Plan()
                    plan.expire(event)
                    continue
                max_events -= 1
                max_bytes -= len(event.value or b"")
                yield window, event
            if plan is None or not self._settler.carry_out_or_put_back(live, plan):
                return

    def acquire_batches(
        self,
        topic: str,
        name: str,
        owner: str,
        partitions: Collection[int],
        *,
        max_events: int,
        max_bytes: int = MAX_BYTES,
        whole: bool = False,
        least: bool = True,
        single: bool = False,
    ) -> list[AcquiredBatches]:
        """Deliver events of some partitions to an owner as record batches; see ``acquire``.

        ``whole``: a record batch is delivered to its end, even beyond ``max_events``.
        ``least``: the first batch is delivered whatever its size; the others obey ``max_bytes``.
        ``single``: only from one partition, the first that has events.
        """
        with self.registry.using(topic, name, expire=True, limits=True) as live:
            self._leases += 1
            until_ms = self._monotonic_ms() + live.settings.lock_ms
            lent: list[AcquiredBatches] = []
            for number in live.in_turn(partitions):
                if max_events <= 0 or max_bytes <= 0 or (single and lent):
                    break
                try:
                    load = live.acquire_batches(
                        number, max_events, max_bytes, whole=whole, least=least and not lent
                    )
                except UnknownPartition:
                    raise UnknownTopic(topic) from None
                except MainstemError:
                    if not lent:
                        raise
                    break
                window = live.windows[number]
                given = [
                    (offset, window.give(offset, owner, self._leases, until_ms).deliveries)
                    for offset in sorted(load.offsets)
                ]
                if given:
                    live.redelivered += sum(count > 1 for _, count in given)
                    lent.append(AcquiredBatches(number, load.batches, _runs(given)))
                    max_events -= len(given)
                    max_bytes = load.room
            return lent

    def settle(
        self, topic: str, name: str, owner: str, settlements: Sequence[Settlement]
    ) -> Settled:
        """Settle an owner's deliveries in one append; refuse those not in flight to this owner.

        Raises StorageFull, in which case nothing was changed.
        """
        with self.registry.using(topic, name) as live:
            plan = Plan()
            refused = self._decide(live, owner, settlements, plan)
            durable = self._settler.carry_out([(live, plan)])
        return Settled(durable, refused)

    def settle_all(
        self, settled: Sequence[QueueSettlements], *, lazy: bool = False
    ) -> list[Settled]:
        """Settle deliveries of several queues and owners in one append; see ``settle``.

        Settlements for a deleted queue are refused. ``lazy``: nobody waits for durability. The
        settlements then survive kill -9 on return, and a power cut only a little later.
        """
        with self.registry.turn():
            plans: dict[QueueKey, Planned] = {}
            refused: list[dict[int, MainstemError]] = []
            for topic, name, owner, settlements in settled:
                try:
                    live = self.registry.opened(topic, name)
                except (UnknownTopic, UnknownQueue) as error:
                    refused.append(dict.fromkeys(range(len(settlements)), error))
                    continue
                plan = plans.setdefault(live.key, (live, Plan()))[1]
                refused.append(self._decide(live, owner, settlements, plan))
            durable = self._settler.carry_out(list(plans.values()), lazy=lazy)
        return [Settled(durable, each) for each in refused]

    def _decide(
        self, live: LiveQueue, owner: str, settlements: Sequence[Settlement], plan: Plan
    ) -> dict[int, MainstemError]:
        """Add an owner's settlements to a plan; return the errors of refused ones by index."""
        if any(each.outcome is Outcome.RENEW for each in settlements):
            self._lock_expiry.expire(live)
        refused: dict[int, MainstemError] = {}
        for place, each in enumerate(settlements):
            try:
                self._settler.decide(live, owner, each, plan)
            except StaleDelivery as error:
                refused[place] = error
        return refused

    def settle_by_partition(
        self, topic: str, name: str, owner: str, settlements: Mapping[int, Sequence[Settlement]]
    ) -> Settled:
        """Settle an owner's deliveries in one append, all or none in each partition.

        ``refused`` holds the partitions in which nothing was settled.
        """
        with self.registry.using(topic, name, expire=True) as live:
            lasts = {at: max(it.offset for it in said) for at, said in settlements.items() if said}
            plan, refused = Plan(), self._settler.undelivered(live, lasts)
            for number in [each for each in settlements if each not in refused]:
                part = Plan()
                try:
                    for each in settlements[number]:
                        self._settler.decide(live, owner, each, part)
                except StaleDelivery as error:
                    refused[number] = error
                else:
                    plan.add(part)
            durable = self._settler.carry_out([(live, plan)])
        return Settled(durable, refused)

    def settle_with(self, settled: Sequence[QueueSettlements], append: Append[Answer]) -> Answer:
        """Settle deliveries of several queues, all or none, in one append with other batches.

        ``append``: see ``Settler.carry_out_with``. Raises StaleDelivery, UnknownTopic, UnknownQueue
        or UnknownPartition, in which case nothing was changed.
        """
        with self.registry.turn():
            plans: dict[QueueKey, Planned] = {}
            for topic, name, owner, settlements in settled:
                live = self.registry.opened(topic, name)
                plan = plans.setdefault(live.key, (live, Plan()))[1]
                if any(each.outcome is Outcome.RENEW for each in settlements):
                    self._lock_expiry.expire(live)
                for each in settlements:
                    self._settler.decide(live, owner, each, plan)
            return self._settler.carry_out_with(list(plans.values()), append)

    def undelivered(
        self, topic: str, name: str, lasts: Mapping[int, int]
    ) -> dict[int, MainstemError]:
        """Return an error for each partition that is unknown or whose offset was not delivered.

        ``lasts``: an offset by partition number.
        """
        with self.registry.lock:
            return self._settler.undelivered(self.registry.opened(topic, name), lasts)

    def renew(
        self, topic: str, name: str, owner: str, deliveries: Iterable[Settlement]
    ) -> dict[int, MainstemError]:
        """Extend the locks of deliveries to ``lock_ms`` from now; return errors by their index.

        Stores nothing. Only partition, offset and lease of the settlements are used.
        """
        kept = [each._replace(outcome=Outcome.RENEW) for each in deliveries]
        return self.settle(topic, name, owner, kept).refused

    def leave(self, topic: str, name: str, owner: str, *, failed: bool = False) -> Durable:
        """Return all deliveries of an owner to the queue.

        ``failed``: count these deliveries towards ``max_deliveries``.
        """
        with self.registry.using(topic, name) as live:
            plan = Plan()
            for number, window in live.windows.items():
                for offset in list(window.held_by(owner)):
                    count = window.entries[offset].deliveries
                    plan.set(number, offset, Redelivery(count if failed else count - 1))
            durable = self._settler.carry_out([(live, plan)])
            self._settler.bury_spent(live)
        return durable

    def watch(
        self, topic: str, name: str, wake: Callback, partitions: Collection[int] | None = None
    ) -> Callback:
        """Call ``wake`` once there may be new events; return a function that cancels the watch.

        Acquire before watching, so that the tails of the partitions are known. Acquire again
        afterwards, as events may have arrived in between. ``wake`` may be called more than once,
        from any thread, and while the lock is held: it must only set a flag. Expiring locks and
        delays do not call it: see ``wait_ms``.
        """
        with self.registry.lock:
            live = self.registry.opened(topic, name)
            return live.watch(wake, live.windows if partitions is None else partitions)

    def wait_ms(self, topic: str, name: str) -> int | None:
        """Return the ms until the next lock or delay in a queue ends, None if there is none."""
        with self.registry.lock:
            live = self.registry.opened(topic, name)
            return live.wait_ms(self._monotonic_ms(), self._now_ms())


def _runs(given: Sequence[tuple[int, int]]) -> list[AcquiredRecords]:
    """Group consecutive offsets with equal delivery counts into runs."""
    found: list[AcquiredRecords] = []
    first, alike = given[0]
    last = first - 1
    for offset, count in given:
        if offset != last + 1 or count != alike:
            found.append(AcquiredRecords(first, last, alike))
            first, alike = offset, count
        last = offset
    found.append(AcquiredRecords(first, last, alike))
    return found
