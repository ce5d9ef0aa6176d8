"""Settler deliveries: planned, appended together with their dead letters, and then made true."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from mainstem.broker.callbacks import Callback
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.journal import Journal
from mainstem.broker.queues.delivery_state import Back, Window
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import (
    Key,
    Outcome,
    QueueChange,
    Settlement,
    Value,
    WindowKey,
    WindowSet,
)
from mainstem.broker.queues.replay import QueueFold
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.dead_letters import buried, topic_of
from mainstem.core.errors import (
    MainstemError,
    OffsetOutOfRange,
    StaleDelivery,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event
from mainstem.core.partitioner import partition_for
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable, PartitionId, WritableBatch

CreateTopic = Callable[[str, TopicSettings], object]

_LETTER_BYTES = 64 * 1024
"""What the story of a dead letter may add to the largest event."""
_NEVER_SETTLED = "it was delivered that often and never settled"


class Plan:
    """What a request would change in a queue, until it has been appended."""

    def __init__(self) -> None:
        self.changes: dict[int, dict[int, Back | None]] = {}
        """By partition and offset; None is settled."""
        self.reasons: dict[int, dict[int, str]] = {}
        self.dead: dict[int, dict[int, str]] = {}
        """Which of those that are settled become dead letters, and why."""
        self.renewed: list[tuple[int, int]] = []

    def set(self, partition: int, offset: int, change: Back | None, reason: str = "") -> None:
        """Plan to settle an event, or to give it back."""
        self.changes.setdefault(partition, {})[offset] = change
        self.reasons.setdefault(partition, {})[offset] = reason

    def bury(self, partition: int, offset: int, reason: str) -> None:
        """Plan to settle an event as a dead letter."""
        self.set(partition, offset, None)
        self.dead.setdefault(partition, {})[offset] = reason

    def add(self, other: "Plan") -> None:
        """Take in a plan for other partitions."""
        self.changes |= other.changes
        self.reasons |= other.reasons
        self.dead |= other.dead
        self.renewed += other.renewed


class Prepared(NamedTuple):
    """What is appended to carry out a plan."""

    live: LiveQueue
    plan: Plan
    records: list[QueueChange]
    letters: list[tuple[PartitionId, WritableBatch]]
    missed: dict[int, int]
    """By partition, how many events were deleted before they could become dead letters."""


class Settler:
    """Used under the queues' lock."""

    def __init__(
        self,
        state: State,
        journal: Journal[Key, Value],
        fold: QueueFold,
        create_topic: CreateTopic,
        now_ms: Callable[[], int],
    ) -> None:
        self._state = state
        self._journal = journal
        self._fold = fold
        self._create_topic = create_topic
        self._now_ms = now_ms
        self.calls: list[Callback] = []
        """Whom to tell what, without the lock."""

    def held(self, live: LiveQueue, owner: str, each: Settlement) -> Window:
        """Return the window of a delivery; StaleDelivery unless it is out with this owner."""
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
        """Return why nothing can be said of offsets: no such partition, or never delivered."""
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
        """Plan what an owner says of a delivery; StaleDelivery if it has nothing to say."""
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
                plan.set(each.partition, each.offset, Back(count - 1))
            case Outcome.NACK if most is None or count < most:
                due_ms = self._now_ms() + each.delay_ms if each.delay_ms > 0 else 0
                plan.set(each.partition, each.offset, Back(count, due_ms), each.reason)
            case _:
                reason = each.reason or f"it was {each.outcome}ed"
                plan.bury(each.partition, each.offset, reason)

    def _is_out(self, live: LiveQueue, each: Settlement) -> bool:
        window = live.windows.get(each.partition)
        return window is None or each.offset in window.entries or each.offset >= window.next

    def bury_spent(self, live: LiveQueue) -> bool:
        """Make dead letters of what was delivered too often; return whether there was any."""
        is_any = False
        for number, window in live.windows.items():
            plan = Plan()
            for offset in sorted(window.spent):
                plan.bury(number, offset, window.entries[offset].reason or _NEVER_SETTLED)
            # Without room, or if they cannot be read, they stay as they are: nobody who asks for
            # other events shall wait for that, and it is tried again with everything that is asked.
            with suppress(MainstemError):
                self.carry_out(live, plan)
                is_any = is_any or bool(plan.changes)
        return is_any

    def carry_out(self, live: LiveQueue, plan: Plan) -> Durable:
        """Append what was planned, all or nothing, and make it true; StorageFull changes nothing.

        The dead letters are part of the same append: an event is settled if its letter is there.
        """
        if not plan.changes:
            return AT_ONCE
        prepared = self.prepare(live, plan)
        durable = self.write(prepared.records, prepared.letters)
        self._make_true(prepared)
        return durable

    def prepare(self, live: LiveQueue, plan: Plan) -> Prepared:
        """Return what has to be appended for a plan; nothing has changed so far."""
        dead: list[Event] = []
        missed: dict[int, int] = {}
        if live.settings.dead_letters:
            for number, reasons in plan.dead.items():
                letters, missed[number] = _dead(live, number, reasons)
                dead += letters
        records = [
            self._record(live, number, changes, missed.get(number, 0))
            for number, changes in plan.changes.items()
        ]
        return Prepared(live, plan, records, self._letters(live.topic, dead), missed)

    def batches(self, prepared: Iterable[Prepared]) -> list[tuple[PartitionId, WritableBatch]]:
        """Return what was prepared as it is appended, so that other things go with it."""
        letters, changes = list[tuple[PartitionId, WritableBatch]](), list[QueueChange]()
        for each in prepared:
            letters += each.letters
            changes += each.records
        return [*letters, *self._journal.batches(changes, self._now_ms())]

    def appended(self, prepared: Iterable[Prepared]) -> None:
        """Make true what was appended."""
        for each in prepared:
            self._fold.apply(each.records)
            self.tell_gates(each.records)
            self._make_true(each)

    def _make_true(self, prepared: Prepared) -> None:
        live, plan = prepared.live, prepared.plan
        for number, changes in plan.changes.items():
            live.windows[number].missed += prepared.missed.get(number, 0)
            live.windows[number].apply(changes, plan.reasons[number])
            live.windows[number].written()
        self._tell_gate(live, plan.changes)
        live.dead += len(prepared.letters)

    def note(self, live: LiveQueue, numbers: Iterable[int]) -> None:
        """Write down how partitions stand, where what was out before a crash comes again.

        It survives kill -9 on return. If it cannot be written, whoever settles meets the error.
        """
        windows = {number: live.windows[number] for number in numbers}
        # So many can have been out, and they come first.
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
        changes: Mapping[int, Back | None],
        missed: int = 0,
    ) -> QueueChange:
        """Return what is to be written of a window that will have changed."""
        window = live.windows[number]
        change = self._fold.change(live.key, number, window.change(changes, missed))
        return change or QueueChange(
            WindowKey(live.key.name, live.key.topic_id, number), window.record(changes, missed)
        )

    def write(
        self,
        changes: Sequence[QueueChange],
        letters: Sequence[tuple[PartitionId, WritableBatch]] = (),
    ) -> Durable:
        """Append changes of the fold, dead letters first, and apply them."""
        batches = [*letters, *self._journal.batches(changes, self._now_ms())]
        durable = self._state.log.append(batches).durable if batches else AT_ONCE
        self._fold.apply(changes)
        self.tell_gates(changes)
        return durable

    def tell_gates(self, changes: Iterable[QueueChange]) -> None:
        """Let topics that limit their backlog know where windows begin that are written whole."""
        for key, value in changes:
            if isinstance(key, WindowKey):
                start = value.start if isinstance(value, WindowSet) else None
                self._tell(key.name, key.at, start)

    def _tell_gate(self, live: LiveQueue, numbers: Iterable[int]) -> None:
        # What is written may be a mere change; where that leaves a window, the live one knows.
        for number in numbers:
            at = PartitionId(live.key.topic_id, number)
            self._tell(live.key.name, at, live.windows[number].start)

    def _tell(self, name: str, at: PartitionId, start: int | None) -> None:
        """Let a topic that limits its backlog know how far it is settled; None: no more asked."""
        if not self._state.gates:
            return
        with self._state.lock:
            gate = self._state.gates.get(at.topic_id)
            if gate is not None:
                cursor = None if start is None else Cursor(start, self._now_ms())
                gate.queue_at(name, at, cursor)
                self.calls += gate.make_room()

    def _letters(
        self, topic: Topic, letters: Sequence[Event]
    ) -> list[tuple[PartitionId, WritableBatch]]:
        if not letters:
            return []
        dead, now_ms = self._dead_topic(topic).partitions, self._now_ms()
        return [
            (
                dead[0 if each.key is None else partition_for(each.key, len(dead))],
                build((each,), now_ms=now_ms),
            )
            for each in letters
        ]

    def _dead_topic(self, topic: Topic) -> Topic:
        name, settings = topic_of(topic.name), topic.settings
        if self._state.topics.find(name) is None:
            most = settings.max_batch_bytes + _LETTER_BYTES
            # Somebody else may have been quicker.
            with suppress(TopicExists):
                self._create_topic(
                    name, TopicSettings(durability=settings.durability, max_batch_bytes=most)
                )
        found = self._state.topics.find(name)
        if found is None:
            raise UnknownTopic(name)
        return found


def _dead(live: LiveQueue, number: int, reasons: Mapping[int, str]) -> tuple[list[Event], int]:
    """Return events of a partition as dead letters, and how many were deleted before they could."""
    # All at once: a batch is unpacked once, however many of its events are to be buried.
    found = live.again(number, reasons)
    entries, name = live.windows[number].entries, live.key.name
    letters = [
        buried(event, name, entries[offset].deliveries, reasons[offset])
        for offset, event in found.items()
    ]
    start = live.bounds(number).start
    return letters, sum(offset < start for offset in reasons if offset not in found)


def _place(live: LiveQueue, each: Settlement) -> str:
    return f"{live.topic.name}[{each.partition}]@{each.offset} of {live.key.name!r}"
