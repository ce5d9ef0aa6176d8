"""The broker: implements the door, the interface that heads, connectors and the client use.

How this works: each request is checked, its records are appended, and the state is updated, all
under one lock (``state``) that is never held while waiting; the caller waits for the result's
``durable``, a future of the commit, before it answers its peer. Reading, and publishing to topics
without a backlog limit, need only the log's own lock. Callbacks are called without the lock.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence

from mainstem.broker.callbacks import Callback, make
from mainstem.broker.clocks import Clocks
from mainstem.broker.definitions import Definitions, HeadChanges
from mainstem.broker.delays.delays import DelayedEvent, Delays
from mainstem.broker.duties import Duties
from mainstem.broker.groups.classic.coordinator import ClassicGroups
from mainstem.broker.groups.configs import GroupConfigs
from mainstem.broker.groups.consumer.coordinator import ConsumerGroups
from mainstem.broker.groups.cursor_expiry import CursorExpiry
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.lag import GroupState, Lag, group_state, lag
from mainstem.broker.groups.local.coordinator import HAND_OVER_MS
from mainstem.broker.groups.local.member import Member
from mainstem.broker.groups.share.coordinator import ShareGroups
from mainstem.broker.journal import IDS, TOPICS
from mainstem.broker.limits import Limits
from mainstem.broker.producers.producers import Producers
from mainstem.broker.publishing.append import BatchAppends
from mainstem.broker.publishing.atomic import AtomicPublish, PublishedAll, TopicEvents
from mainstem.broker.publishing.batching import PartitionBatch, Published, runs
from mainstem.broker.publishing.idempotent import IdempotentAppends
from mainstem.broker.publishing.outcome import AppendOutcomes
from mainstem.broker.publishing.overload import NO_COUNTERS, HeldPublish
from mainstem.broker.queues.acked_events import AckedEvents
from mainstem.broker.queues.queues import Queues, QueueSettlements
from mainstem.broker.reading.feed import Feed
from mainstem.broker.reading.timestamps import time_at
from mainstem.broker.state import OpenTopic, State
from mainstem.broker.timers import Timer, Timers, timer
from mainstem.broker.topics.catalog import Topic, TopicPartition
from mainstem.broker.topics.topics import TopicChanges, TopicDone
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.errors import OffsetOutOfRange, UnknownGroup, UnknownPartition, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.names import check_topic, is_internal
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import Bounds, Durable, Log, PartitionId, Slice, TimedOffset, WritableBatch

DEFAULTS = TopicSettings()
LIMITS = Limits()
_TRY_AGAIN_MS = 1000
"""Delay in ms before a change that a full disk has interrupted is continued."""


class Broker:
    """The broker, for heads (protocols), connectors and the client; synchronous, thread-safe."""

    def __init__(
        self,
        log: Log,
        now_ms: Callable[[], int],
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        hand_over_ms: int = HAND_OVER_MS,
        monotonic_ms: Callable[[], int] | None = None,
        limits: Limits = LIMITS,
        resumes: bool = True,
        crashed: bool = False,
    ) -> None:
        """``resumes``: restore classic groups' members, which can reconnect if this is a server.

        ``crashed``: the previous process that used this log ended without closing it.
        """
        self.limits = limits
        """The limits of topics, groups, producers and transactions."""
        self._log = log
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms or now_ms
        clocks = Clocks(now_ms, self._monotonic_ms)
        state = self._state = State(log, clocks, hand_over_ms, limits.topics)
        state.load(now_ms())
        self.group_configs = GroupConfigs(state, limits.group_defaults)
        self.consumers = ConsumerGroups(state, self.group_configs, limits=limits.groups)
        self.classic = ClassicGroups(state, self.consumers, limits=limits.groups, resumes=resumes)
        self.producers = Producers(state, limits.producers)
        self.transactions = Transactions(
            state, self.producers, self.classic, limits=limits.transactions
        )
        idempotent = IdempotentAppends(state, self.producers, self.transactions)
        self._appends = BatchAppends(state, idempotent)
        self._topic_changes = TopicChanges(
            state, self.consumers, self.producers, self.transactions, new_id
        )
        create_topic = self._topic_changes.create
        self.queues = Queues(
            state,
            self.transactions,
            create_topic,
            # Leases are numbered from a random start, and stay below 2 ** 63.
            int(new_id(), 16) % 2**62,
            crashed=crashed,
        )
        is_pending = self.transactions.fold.is_pending
        self._cursor_expiry = CursorExpiry(state, limits.groups.cursor_retention_ms, is_pending)
        self.definitions = Definitions(state)
        self.duties = Duties()
        fold = self.transactions.fold
        self._acked_events = AckedEvents(state, self.queues.registry, fold, self.trim)
        self._topic_changes.changed = self.queues.registry.topic_changed
        self.delays = Delays(state)
        self._atomic = AtomicPublish(state, self.queues, self.delays, self.definitions, self._open)
        self.share = ShareGroups(state, self.queues, self.group_configs, limits.groups)
        self.timers = Timers(self._timers(), self._monotonic_ms)

    def close(self) -> None:
        """Store in the log that the broker stops cleanly; call this before the log is closed."""
        self.queues.registry.close()

    # Topics

    def create_topic(self, name: str, settings: TopicSettings = DEFAULTS) -> TopicDone:
        """Create a topic; raises TopicExists, InvalidName, InvalidSetting, StorageFull."""
        self._catch_up()
        return self._topic_changes.create(name, settings)

    def alter_topic(self, name: str, **changes: object) -> TopicDone:
        """Change some settings of a topic; the number of partitions can only grow."""
        return self._topic_changes.alter(name, changes)

    def delete_topic(self, name: str) -> Durable:
        """Delete a topic with all its events, and every group's committed offsets in it."""
        return self._topic_changes.delete(name)

    def topic(self, name: str) -> Topic:
        """Return a topic; raises UnknownTopic."""
        return self._state.topics.get(name)

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """Return a topic by its id, None if there is none."""
        return self._state.topics.by_id(topic_id)

    def topics(self, pattern: str = "*", *, internal: bool = False) -> list[Topic]:
        """Return the topics that match a name or a pattern with wildcards, sorted by name."""
        with self._state.lock:
            return self._state.topics.matching(pattern, internal=internal)

    def watch_topics(self, wake: Callback) -> Callback:
        """Call ``wake`` at the next change of topics; returns a function to cancel the watch."""
        at = PartitionId(IDS[TOPICS], 0)
        return self._log.watch(at, self._log.bounds(at).tail, wake)

    def counters(self, topic: str) -> dict[str, int]:
        """Return the topic's overload counters since the process started."""
        with self._state.lock:
            gate = self._state.gates.get(self._state.topics.get(topic).id)
            return dict(NO_COUNTERS if gate is None else gate.counters)

    # Events

    def publish(
        self, topic: str, events: Sequence[Event], partition: int | None = None
    ) -> Published:
        """Append events, all or nothing; blocks while a topic with backpressure is full.

        Without ``partition`` the key selects the partition; events without a key go to the
        partitions in turn. Raises Overloaded, EventTooLarge, InvalidEvent or StorageFull; then
        nothing was appended.
        """
        opened = self._open(topic)
        batches = runs(opened.topic, events, partition, opened.turns, self._now_ms())
        if opened.gate is None:
            return self._append(opened, batches)
        answer = self._append_within_limit(opened, batches, None)
        while isinstance(answer, HeldPublish):
            in_time = answer.room.wait(max(0, answer.until_ms - self._now_ms()) / 1000)
            opened = self._open(topic)
            answer = self._append_within_limit(opened, batches, answer, last=not in_time)
        return answer

    def try_publish(
        self,
        topic: str,
        events: Sequence[Event],
        partition: int | None = None,
        held: HeldPublish | None = None,
        *,
        lazy: bool = False,
    ) -> Published | HeldPublish:
        """Publish without blocking; returns a HeldPublish if backpressure delays the producer.

        The caller then waits for the HeldPublish's ``room``, until its ``until_ms`` at most, and
        retries, passing the HeldPublish as ``held``. ``lazy``: the publisher does not wait for
        durability, so the sync may be delayed; see the log's ``append``.
        """
        opened = self._open(topic)
        batches = runs(opened.topic, events, partition, opened.turns, self._now_ms())
        return self._append_within_limit(opened, batches, held, lazy=lazy)

    def publish_all(
        self,
        entries: Sequence[TopicEvents],
        settled: Sequence[QueueSettlements] = (),
        held: HeldPublish | None = None,
        delayed: Sequence[DelayedEvent] = (),
        defined: HeadChanges | None = None,
    ) -> PublishedAll | HeldPublish:
        """Append events to several topics, settle deliveries, and set definitions, all or nothing.

        Never blocks.

        ``delayed``: events that are stored with the others, and published when they are due.
        ``defined``: definitions that are stored with the events, such as a source's position.

        If a topic with backpressure is full, nothing is done and a HeldPublish is returned: wait
        for its ``room``, until its ``until_ms`` at most, and retry, passing it as ``held``. Raises
        the errors of ``try_publish``, ``queues.settle`` and ``definitions``, and StaleDelivery;
        then nothing was done.
        """
        return self._atomic.publish_all(entries, settled, held, delayed, defined)

    def append_batches(
        self,
        topic: str,
        batches: Sequence[tuple[int, WritableBatch]],
        held: HeldPublish | None = None,
        *,
        adds_partition: bool = False,
    ) -> AppendOutcomes:
        """Append producers' record batches, each independently, to partitions given by number.

        Each batch is checked as the topic's settings demand. Never blocks: if backpressure holds a
        batch back, that batch and all after it are not appended; retry these, passing the
        HeldPublish as ``held``. Raises UnknownTopic. ``adds_partition``: adds the partition to the
        batch's transaction, if it is not in it yet (KIP-890).
        """
        return self._appends.append(self._open(topic), batches, held, adds_partition=adds_partition)

    def admit(
        self, topic: str, partition: int, count: int, held: HeldPublish | None = None
    ) -> HeldPublish | None:
        """Return None if events fit the backlog limit, else a HeldPublish; raises Overloaded."""
        gate = self._open(topic).gate
        self._at(topic, partition)
        if gate is None:
            return None
        with self._state.lock:
            return gate.admit({partition: count}, self._now_ms(), held)

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> Slice:
        """Return whole record batches, beginning with the one that contains ``offset``."""
        try:
            return self._log.read(self._at(topic, partition), offset, max_bytes)
        except UnknownPartition as error:
            raise self._gone(topic, error) from None

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the offsets of a partition: log start, tail (high watermark) and log end."""
        try:
            return self._log.bounds(self._at(topic, partition))
        except UnknownPartition as error:
            raise self._gone(topic, error) from None

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> TimedOffset | None:
        """Return offset and time of the first readable event at or after a time, or None."""
        try:
            return self._log.offset_at(self._at(topic, partition), timestamp_ms)
        except UnknownPartition as error:
            raise self._gone(topic, error) from None

    def follow(self, topic: str, partition: int, offset: int, *, committed: bool = True) -> Feed:
        """Return a feed: it reads a partition's events from an offset on, and never blocks.

        ``committed``: leave out events of aborted and ongoing transactions (read_committed).
        """
        return Feed(self._state, self.transactions, topic, partition, offset, committed=committed)

    def time_at(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the timestamp of the first event at or after an offset, None if there is none."""
        return time_at(self, topic, partition, offset)

    def watch(self, topic: str, partition: int, offset: int, wake: Callback) -> Callback:
        """Call ``wake`` once, when the tail is past ``offset`` or the topic is deleted.

        If that is already so, the call comes at once. Returns a function to cancel the watch.
        """
        try:
            return self._log.watch(self._at(topic, partition), offset, wake)
        except UnknownPartition as error:
            raise self._gone(topic, error) from None

    def trim(self, topic: str, partition: int, before: int) -> Bounds:
        """Delete the events before an offset; return the partition's new bounds."""
        return self._cut(topic, partition, start=before)

    def truncate(self, topic: str, partition: int, end: int) -> Bounds:
        """Delete all events at and after an offset, begin a new leader epoch; return the bounds."""
        return self._cut(topic, partition, end=end)

    # Groups and cursors

    def join(self, group: str, topics: Sequence[str], changed: Callback) -> Member:
        """Join a group to read topics, given by name or pattern.

        ``changed`` is called when the assignment has changed: from any thread, without a lock; it
        must not block.
        """
        now_ms = self._now_ms()
        with self._state.lock:
            self.classic.dissolve(group)
            member, calls = self._state.groups.join(group, topics, changed, now_ms)
        make(calls)
        return Member(self._state, group, member)

    def fence(self, group: str, member: str) -> None:
        """Remove a member from its group, so that it can no longer commit."""
        with self._state.lock:
            calls = self._state.groups.leave(group, member, self._now_ms())
        make(calls)

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> Durable:
        """Commit offsets for a group without members; members use ``Member.commit``."""
        return self._move(group, offsets, "committed to from outside", metadata)

    def seek(self, group: str, offsets: Mapping[TopicPartition, int]) -> Durable:
        """Set a group's offsets, within the logs' bounds; refused while the group has members."""
        for (topic, partition), offset in offsets.items():
            start, tail = self.bounds(topic, partition)[:2]
            if not start <= offset <= tail:
                place = f"partition {partition} of topic {topic!r}"
                raise OffsetOutOfRange(place, offset, start, tail)
        return self._move(group, offsets, "moved")

    def put_back(self, group: str, offsets: Mapping[TopicPartition, int]) -> Durable:
        """Set a group's committed offsets without checks.

        Neither the bounds of the log nor the group's members matter: when a log has lost its last
        events in a crash, offsets beyond its end are moved back to it.
        """
        return self._move(group, offsets)

    def cursor(self, group: str, topic: str, partition: int) -> Cursor | None:
        """Return a group's committed offset in a partition, None if it has not committed there."""
        return self._state.cursors.at(group, self._at(topic, partition))

    def committed(self, group: str) -> dict[TopicPartition, Cursor]:
        """Return a group's committed offsets in all partitions."""
        with self._state.lock:
            return {
                (topic.name, at.number): cursor
                for at, cursor in self._state.cursors.of(group).items()
                if (topic := self._state.topics.by_id(at.topic_id)) is not None
            }

    def lag(self, group: str, topic: str | None = None) -> tuple[Lag, ...]:
        """Return the lag in every partition that the group has committed to or is assigned.

        With a topic: in all partitions of that topic. Raises UnknownGroup.
        """
        with self._state.lock:
            self._check_known(group)
            return lag(self._state, group, topic, self._members(group))

    def group(self, name: str) -> GroupState:
        """Return a group's members, partitions and lag; raises UnknownGroup."""
        with self._state.lock:
            self._check_known(name)
            return group_state(self._state, name, self._members(name))

    def groups(self) -> list[GroupState]:
        """Return every group that has members or committed offsets, sorted by name."""
        names = self.group_names()
        with self._state.lock:
            return [group_state(self._state, name, self._members(name)) for name in names]

    def group_names(self) -> list[str]:
        """Return the names of the groups that have members or committed offsets."""
        with self._state.lock:
            return sorted(self._state.groups.live() | set(self._state.cursors.groups()))

    def delete_group(self, name: str) -> Durable:
        """Delete a group's committed offsets; refused while it has members."""
        now_ms = self._now_ms()
        with self._state.lock:
            self._check_known(name)
            self._state.groups.check_not_live(name, "deleted")
            self.classic.dissolve(name)
            changes = self._state.cursors.remove(name)
            partitions = list(self._state.cursors.of(name))
            durable = self._state.change_cursors(changes, now_ms)
            calls = self._state.make_room(partitions)
        make(calls)
        return durable

    def tick(self) -> None:
        """Act on passed deadlines: sessions, transactions, queue locks, delayed events, offsets.

        An error in one of these parts is logged, and the other parts still act; see ``timers``.
        """
        self.timers.tick()

    def _tick_local_groups(self) -> None:
        with self._state.lock:
            calls = self._state.groups.tick(self._now_ms())
        make(calls)

    def when_due_earlier(self, call: Callback) -> None:
        """Set a function to call when ``wait_ms`` may have become shorter.

        ``call`` is called from any thread, while locks are held, so it must only set a flag.
        """
        self._state.alarm.listener = call

    def wait_ms(self) -> int | None:
        """Return the time in ms until ``tick`` is next due; None if there is no deadline."""
        return self.timers.wait_ms()

    def _timers(self) -> list[Timer]:
        now_ms, monotonic_ms = self._now_ms, self._monotonic_ms
        return [
            Timer("local groups", self._tick_local_groups, lambda: None),
            timer("consumer groups", self.consumers, monotonic_ms),
            timer("classic groups", self.classic, monotonic_ms),
            timer("producers", self.producers, monotonic_ms),
            timer("transactions", self.transactions, now_ms),
            Timer("queues", self.queues.registry.tick, self.queues.registry.next_wait_ms),
            timer("share groups", self.share, monotonic_ms),
            timer("delayed events", self.delays, now_ms),
            timer("cursor expiry", self._cursor_expiry, monotonic_ms),
            timer("acked events", self._acked_events, monotonic_ms),
            Timer("topic changes", self._catch_up, self._catch_up_ms),
        ]

    def _catch_up_ms(self) -> int | None:
        return _TRY_AGAIN_MS if self._state.is_behind else None

    def _catch_up(self) -> None:
        """Continue changes to topics that a full disk has interrupted."""
        if self._state.is_behind:
            self._topic_changes.catch_up()

    def _members(self, group: str) -> dict[str, tuple[TopicPartition, ...]]:
        """Return the partitions of each member that speaks one of Kafka's group protocols."""
        return self.classic.members(group) | self.consumers.members(group)

    def _open(self, topic: str) -> OpenTopic:
        opened = self._state.opened.get(topic)
        if opened is None:
            if is_internal(topic):
                check_topic(topic)
            raise UnknownTopic(topic)
        return opened

    def _at(self, topic: str, partition: int) -> PartitionId:
        return self._state.at(topic, partition)

    def _append(
        self, opened: OpenTopic, batches: Sequence[PartitionBatch], *, lazy: bool = False
    ) -> Published:
        partitions = opened.topic.partitions
        chosen = [(partitions[run.partition], run.batch) for run in batches]
        try:
            appended = self._log.append(chosen, lazy=lazy)
        except UnknownPartition as error:
            raise self._gone(opened.topic.name, error) from None
        return Published(batches, appended.offsets, appended.durable)

    def _append_within_limit(
        self,
        opened: OpenTopic,
        batches: Sequence[PartitionBatch],
        held: HeldPublish | None,
        *,
        last: bool = False,
        lazy: bool = False,
    ) -> Published | HeldPublish:
        gate = opened.gate
        if gate is None:
            return self._append(opened, batches, lazy=lazy)
        counts: dict[int, int] = {}
        for run in batches:
            counts[run.partition] = counts.get(run.partition, 0) + len(run.places)
        with self._state.lock:
            return gate.append(
                counts, self._now_ms(), held, lambda: self._append(opened, batches), last=last
            )

    def _cut(
        self, topic: str, partition: int, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        check_topic(topic)
        at = self._at(topic, partition)
        if end is not None:
            self.transactions.check_cut(topic, partition, end)
        else:
            self.producers.keep(topic, partition)
        try:
            bounds = self._log.cut(at, start=start, end=end)
        except UnknownPartition as error:
            raise self._gone(topic, error) from None
        with self._state.lock:
            if end is not None:
                self.producers.cut(at)
                self.transactions.cut(at)
            calls = self._state.make_room((at,))
        make(calls)
        if end is not None:
            self.queues.registry.cut(at)
        return bounds

    def _move(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        deed: str | None = None,
        metadata: str = "",
    ) -> Durable:
        """Set a group's committed offsets.

        ``deed``: if set, refuse while the group has members, with an error that says "cannot be "
        and ``deed``.
        """
        now_ms = self._now_ms()
        with self._state.lock:
            if deed is not None:
                self._state.groups.check_not_live(group, deed)
                self.classic.dissolve(group)
            cursors = {
                self._at(topic, partition): Cursor(offset, now_ms, metadata)
                for (topic, partition), offset in offsets.items()
            }
            changes = self._state.cursors.commit(group, cursors)
            durable = self._state.change_cursors(changes, now_ms)
            calls = self._state.make_room(tuple(cursors))
        make(calls)
        return durable

    def _gone(self, topic: str, error: UnknownPartition) -> UnknownTopic | UnknownPartition:
        """Convert the log's error, which has only the topic's id, to UnknownTopic with its name."""
        return error if error.topic == topic else UnknownTopic(topic)

    def _check_known(self, group: str) -> None:
        if not self._state.groups.is_live(group) and not self._state.cursors.of(group):
            raise UnknownGroup(group)
