"""Settles deliveries: plans changes, appends them with their dead letters, then applies them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from mainstem.broker.callbacks import Callback
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.journal import Journal
from mainstem.broker.queues.dead_letters import NO_LETTERS, DeadLetters, Death, Letters
from mainstem.broker.queues.delivery_state import Redelivery, Window
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import (
    Cause,
    Key,
    Order,
    Outcome,
    QueueChange,
    QueueKey,
    Settlement,
    Value,
    WindowKey,
    WindowSet,
)
from mainstem.broker.queues.replay import QueueFold
from mainstem.broker.state import State
from mainstem.core.errors import MainstemError, OffsetOutOfRange, StaleDelivery, UnknownPartition
from mainstem.core.event import Event
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable, PartitionId, WritableBatch

_NEVER_SETTLED = "it was delivered that often and never settled"
_CAUSES = {
    Cause.EXPIRED: "it was not delivered in its time to live",
    Cause.LENGTH: "its queue exceeded its limit of waiting events or bytes",
}


class Plan:
    """Planned changes to a queue, not appended yet."""

    def __init__(self) -> None:
        self.changes: dict[int, dict[int, Redelivery | None]] = {}
        """Changes by partition and offset; None settles the event."""
        self.reasons: dict[int, dict[int, str]] = {}
        self.dead: dict[int, dict[int, Death]] = {}
        """The settled events that become dead letters, and why."""
        self.renewed: list[tuple[int, int]] = []

    def set(self, partition: int, offset: int, change: Redelivery | None, reason: str = "") -> None:
        """Add to the plan: settle an event (``change`` is None), or return it to the queue."""
        self.changes.setdefault(partition, {})[offset] = change
        if reason:
            self.reasons.setdefault(partition, {})[offset] = reason

    def bury(self, partition: int, offset: int, cause: Cause, reason: str) -> None:
        """Add to the plan: settle an event as a dead letter."""
        self.set(partition, offset, None)
        self.dead.setdefault(partition, {})[offset] = Death(cause, reason)

    def expire(self, event: Event) -> None:
        """Add to the plan: a waiting event, whose time to live is over, becomes a dead letter."""
        self.bury(event.partition, event.offset, Cause.EXPIRED, _CAUSES[Cause.EXPIRED])

    def add(self, other: "Plan") -> None:
        """Merge a plan for other partitions."""
        self.changes |= other.changes
        self.reasons |= other.reasons
        self.dead |= other.dead
        self.renewed += other.renewed


Planned = tuple[LiveQueue, Plan]
Answer = TypeVar("Answer")
Append = Callable[[Batches], tuple[Answer, bool]]


class Prepared(NamedTuple):
    """A plan, encoded: the records and dead letters to append."""

    live: LiveQueue
    plan: Plan
    records: list[QueueChange]
    letters: Letters
    frees: bool
    """Whether the plan may make events available to waiting consumers."""


class Settler:
    """Settles deliveries; used under the queues' lock."""

    def __init__(
        self,
        state: State,
        journal: Journal[Key, Value],
        fold: QueueFold,
        dead_letters: DeadLetters,
    ) -> None:
        self._state = state
        self._journal = journal
        self._fold = fold
        self._dead_letters = dead_letters
        self._now_ms, self._monotonic_ms = state.clocks
        self.calls: list[Callback] = []
        """Callbacks to call after the lock is released."""
        self.given_back: list[QueueKey] = []
        """Queues with limits to which events have returned, so that the limits must be checked."""
        self.kept: list[QueueKey] = []
        """Queues whose dead letters could not be written, and must be tried again."""
        self.settled_topics: dict[str, None] = {}
        """Topics with ``delete_acked`` in which events were settled."""

    def held(self, live: LiveQueue, owner: str, each: Settlement) -> Window:
        """Return a delivery's window; raises StaleDelivery if it is not in flight to the owner."""
        window = live.windows.get(each.partition)
        if window is None:
            raise UnknownPartition(live.topic.name, each.partition, len(live.windows))
        entry = window.entries.get(each.offset)
        if entry is not None and entry.owner == owner and each.lease in (None, entry.lease):
            return window
        if entry is not None:
            reason = "it was given back, or was not settled in time"
        elif each.offset < window.next:
            reason = "it is settled"
        else:
            reason = "it was never delivered"
        raise StaleDelivery(_place(live, each), owner, reason)

    def undelivered(self, live: LiveQueue, lasts: Mapping[int, int]) -> dict[int, MainstemError]:
        """Return an error for each partition that is unknown or whose offset was not delivered."""
        refused: dict[int, MainstemError] = {}
        for number, last in lasts.items():
            window = live.windows.get(number)
            if window is None:
                refused[number] = UnknownPartition(live.topic.name, number, len(live.windows))
            elif last >= window.next:
                place = f"what was delivered of partition {number} of topic {live.topic.name!r}"
                refused[number] = OffsetOutOfRange(place, last, window.start, window.next)
        return refused

    def decide(self, live: LiveQueue, owner: str, each: Settlement, plan: Plan) -> None:
        """Add a settlement to a plan; raises StaleDelivery if it is not in flight to the owner."""
        if each.outcome is Outcome.ABSENT and not self._is_out(live, each):
            return
        window = self.held(live, owner, each)
        if each.offset in plan.changes.get(each.partition, ()):
            raise StaleDelivery(_place(live, each), owner, "the same request settles it already")
        count, most = window.entries[each.offset].deliveries, live.settings.max_deliveries
        match each.outcome:
            case Outcome.ACK | Outcome.ABSENT:
                plan.set(each.partition, each.offset, None)
            case Outcome.RENEW:
                plan.renewed.append((each.partition, each.offset))
            case Outcome.RELEASE:
                plan.set(each.partition, each.offset, Redelivery(count - 1))
            case Outcome.NACK if most is None or count < most:
                due_ms = self._now_ms() + each.delay_ms if each.delay_ms > 0 else 0
                plan.set(each.partition, each.offset, Redelivery(count, due_ms), each.reason)
            case _:
                reason = each.reason or f"it was {each.outcome}ed"
                is_last = each.outcome is Outcome.NACK
                cause = Cause.DELIVERIES if is_last else Cause.REJECTED
                plan.bury(each.partition, each.offset, cause, reason)

    def _is_out(self, live: LiveQueue, each: Settlement) -> bool:
        window = live.windows.get(each.partition)
        return window is None or each.offset in window.entries or each.offset >= window.next

    def bury_spent(self, live: LiveQueue) -> bool:
        """Write events delivered too often as dead letters; return whether there were any."""
        is_any = False
        for number, window in live.windows.items():
            if not window.spent:
                continue
            plan = Plan()
            for offset in sorted(window.spent):
                reason = window.entries[offset].reason or _NEVER_SETTLED
                plan.bury(number, offset, Cause.DELIVERIES, reason)
            # If they cannot be read or written, they stay spent and the next request tries again:
            # the error must not fail requests for other events.
            with suppress(MainstemError):
                self.carry_out([(live, plan)])
                is_any = is_any or bool(plan.changes)
        return is_any

    def enforce_limits(self, live: LiveQueue) -> bool:
        """Remove expired and excess events; return whether there were any."""
        plan = Plan()
        for number, offset, cause in live.over_limits(self._now_ms()):
            plan.bury(number, offset, cause, _CAUSES[cause])
        is_changed = bool(plan.changes) and self.carry_out_or_put_back(live, plan)
        if live.is_stalled and (is_changed or not plan.changes):
            live.is_stalled = False
            self.calls += live.take_waiting()
        return is_changed

    def carry_out_or_put_back(self, live: LiveQueue, plan: Plan) -> bool:
        """Append and apply a plan for events that are not in flight; return whether that succeeded.

        On failure the events stay in the queue, and the plan is tried again later.
        """
        try:
            # Lazy is enough: if a power cut restores these events, they exceed the limits again.
            self.carry_out([(live, plan)], lazy=True)
        except MainstemError:
            for number, changes in plan.changes.items():
                live.windows[number].head_ms = None
                for offset in changes:
                    live.windows[number].put_back(offset)
            live.stall()
            self.kept.append(live.key)
            return False
        return True

    def carry_out(self, plans: Sequence[Planned], *, lazy: bool = False) -> Durable:
        """Append and apply the plans of queues, all or none, in one append.

        The same append holds the dead letters, so an event is settled only together with its dead
        letter. Raises StorageFull with nothing changed. ``lazy``: the sync may be delayed, as
        nobody waits for durability; see the log's ``append``.
        """
        durable: Durable = AT_ONCE
        prepared = [self._prepare(live, plan) for live, plan in plans if plan.changes]
        if prepared:
            records = [record for each in prepared for record in each.records]
            letters = [letter for each in prepared for letter in each.letters.batches]
            durable = self.write(records, letters, lazy=lazy)
            for each in prepared:
                self._make_true(each)
        for live, plan in plans:
            self._renew(live, plan)
        return durable

    def carry_out_with(self, plans: Sequence[Planned], append: Append[Answer]) -> Answer:
        """Append and apply plans with other batches in one append, made by ``append``.

        ``append`` receives the plans' batches; it returns the value to return, and whether it
        appended anything.
        """
        prepared = [self._prepare(live, plan) for live, plan in plans if plan.changes]
        letters, changes = list[tuple[PartitionId, WritableBatch]](), list[QueueChange]()
        for each in prepared:
            letters += each.letters.batches
            changes += each.records
        answer, is_appended = append([*letters, *self._journal.batches(changes, self._now_ms())])
        if is_appended:
            for each in prepared:
                self._fold.apply(each.records)
                self.tell_gates(each.records)
                self._make_true(each)
            for live, plan in plans:
                self._renew(live, plan)
        return answer

    def _prepare(self, live: LiveQueue, plan: Plan) -> Prepared:
        """Return the records and dead letters for a plan, without changing anything."""
        settings = live.settings
        dead = plan.dead if settings.dead_letters or settings.dead_letter_route else {}
        letters = self._dead_letters.make(live, dead) if dead else NO_LETTERS
        records = [
            self._record(live, number, changes, letters.missed.get(number, 0))
            for number, changes in plan.changes.items()
        ]
        return Prepared(live, plan, records, letters, _frees(live, plan))

    def _make_true(self, prepared: Prepared) -> None:
        live, plan, _, letters, frees = prepared
        for number, changes in plan.changes.items():
            window = live.windows[number]
            window.missed += letters.missed.get(number, 0)
            window.apply(changes, plan.reasons.get(number, {}))
            window.written()
        self._tell_gate(live, plan.changes)
        if live.topic.settings.delete_acked:
            self.note_settled(live.key.topic_id)
        live.dead += len(letters.batches)
        if frees:
            self.calls += live.take_waiting()
            if live.settings.is_limited:
                self.given_back.append(live.key)

    def note_settled(self, topic_id: str) -> None:
        """Note that events of a topic were settled, if the topic has ``delete_acked``."""
        if not self.settled_topics:
            # The first such topic sets a new deadline for the next tick.
            self._state.alarm()
        self.settled_topics[topic_id] = None

    def _renew(self, live: LiveQueue, plan: Plan) -> None:
        if plan.renewed:
            until_ms = self._monotonic_ms() + live.settings.lock_ms
            for number, offset in plan.renewed:
                live.windows[number].keep(offset, until_ms)

    def note(self, live: LiveQueue, numbers: Iterable[int]) -> None:
        """Store the delivery counts of events that may have been in flight at a crash.

        ``numbers``: the partitions of these events.

        The counts survive kill -9 on return. If the write fails, the next settlement raises the
        error.
        """
        windows = {number: live.windows[number] for number in numbers}
        # At most this many events can have been in flight, and they are delivered first.
        most = live.settings.max_unsettled
        unsure = [number for number, each in windows.items() if each.given <= most]
        if unsure:
            with suppress(MainstemError):
                self.write([self._record(live, number, {}) for number in unsure]).hand_over()
                for number in unsure:
                    windows[number].written()
                self._tell_gate(live, unsure)

    def _record(
        self,
        live: LiveQueue,
        number: int,
        changes: Mapping[int, Redelivery | None],
        missed: int = 0,
    ) -> QueueChange:
        """Return the record of a changed window: the change alone, or the whole window."""
        window = live.windows[number]
        change = self._fold.change(live.key, number, window.change(changes, missed))
        return change or QueueChange(
            WindowKey(live.key.name, live.key.topic_id, number), window.record(changes, missed)
        )

    def write(
        self,
        changes: Sequence[QueueChange],
        letters: Sequence[tuple[PartitionId, WritableBatch]] = (),
        *,
        lazy: bool = False,
    ) -> Durable:
        """Append dead letters and records to the journal in one append; apply the records."""
        batches = [*letters, *self._journal.batches(changes, self._now_ms())]
        durable = self._state.log.append(batches, lazy=lazy).durable if batches else AT_ONCE
        self._fold.apply(changes)
        self.tell_gates(changes)
        return durable

    def tell_gates(self, changes: Iterable[QueueChange]) -> None:
        """Report the first unsettled offset of each queue to the backlog limit of its topic."""
        for key, value in changes:
            if isinstance(key, WindowKey):
                start = value.start if isinstance(value, WindowSet) else None
                self._tell(key.name, key.at, start)

    def _tell_gate(self, live: LiveQueue, numbers: Iterable[int]) -> None:
        # The record may hold a change only; the window in memory has the resulting start.
        for number in numbers:
            at = PartitionId(live.key.topic_id, number)
            self._tell(live.key.name, at, live.windows[number].start)

    def _tell(self, name: str, at: PartitionId, start: int | None) -> None:
        """Report a queue's first unsettled offset to a backlog limit; None if it was deleted."""
        if not self._state.gates:
            return
        with self._state.lock:
            gate = self._state.gates.get(at.topic_id)
            if gate is not None:
                cursor = None if start is None else Cursor(start, self._now_ms())
                gate.queue_at(name, at, cursor)
                self.calls += gate.make_room()


def _place(live: LiveQueue, each: Settlement) -> str:
    return f"{live.topic.name}[{each.partition}]@{each.offset} of {live.key.name!r}"


def _frees(live: LiveQueue, plan: Plan) -> bool:
    """Tell whether a plan may make events available to waiting consumers."""
    return live.settings.order is Order.KEY or any(
        live.windows[number].is_full(live.settings.max_unsettled)
        or any(change is not None for change in changes.values())
        for number, changes in plan.changes.items()
    )
