"""The broker's state: topics and cursors, replayed from their journals, groups, and one lock.

All methods are called under the lock. A change is appended to its journal and then applied, without
waiting in between: the next decision sees it at once, and only responses wait for the disk.

A full disk can refuse any step of a change to topics, and a refused change must not reappear after
a restart. So a change takes place if, and only if, its record is in the journal. New partitions and
a stricter durability must exist whenever the record does, so the log gets them before the record is
appended; if the record is then refused, they do no harm. All other steps come after the record, and
are retried (``catch_up``) until there is disk space.

A failed commit stops the log until it is reopened. The journals then hold only what is durable, and
``go_back`` restores the topics to that.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from mainstem.broker.callbacks import Callback
from mainstem.broker.clocks import Clocks
from mainstem.broker.deadlines import Alarm
from mainstem.broker.groups.cursors import Cursor, CursorChange, CursorKey, Cursors
from mainstem.broker.groups.local.coordinator import Groups
from mainstem.broker.journal import CURSORS, IDS, SETTINGS_OF, TOPICS, Journal
from mainstem.broker.publishing.overload import Gate
from mainstem.broker.topics.catalog import DEFAULTS as TOPIC_LIMITS
from mainstem.broker.topics.catalog import (
    Topic,
    TopicChange,
    TopicGone,
    TopicKey,
    TopicLimits,
    TopicPartition,
    Topics,
    TopicSet,
    TopicValue,
)
from mainstem.core.errors import Closed, MainstemError, StorageFailed, StorageFull, UnknownPartition
from mainstem.core.partitioner import Turns
from mainstem.core.topic_settings import Durability
from mainstem.log.port import Batches, Durable, Log, PartitionId

REFUSALS = (StorageFull, StorageFailed, Closed)
"""Errors of a log that cannot append now; the remaining steps of a change are retried later."""


class OpenTopic:
    """A topic with the state that publishing needs: its backlog limit, its partitioner."""

    __slots__ = ("gate", "takes_as_sent", "topic", "turns")

    def __init__(self, topic: Topic, turns: Turns) -> None:
        self.topic = topic
        self.turns = turns
        self.gate: Gate | None = None
        """The gate (``overload.Gate``) that limits the topic's backlog; None without a limit."""
        settings = topic.settings
        self.takes_as_sent = settings.verbatim and not settings.deep
        """Whether producers' batches are appended without checking each event or rewriting."""


class State:
    """The state of topics, groups and cursors, their journals, and the lock that protects them."""

    def __init__(
        self, log: Log, clocks: Clocks, hand_over_ms: int, limits: TopicLimits = TOPIC_LIMITS
    ) -> None:
        self.log = log
        self.clocks = clocks
        self.lock = threading.Lock()
        self.alarm = Alarm()
        """Notifies the broker's timer that ``tick`` may be due earlier than before."""
        self.topics = Topics(limits)
        self.cursors = Cursors()
        self.groups = Groups(self.topics, hand_over_ms)
        self.opened: dict[str, OpenTopic] = {}
        """The topics that can be published to, by name."""
        self.gates: dict[str, Gate] = {}
        """The gates of topics that limit their backlog, or once did, by topic id."""
        self.before_cut: Callable[[PartitionId, int], None] = lambda *_: None
        """Called before ``drop=oldest`` deletes the events before an offset."""
        self.deleted: dict[str, TopicGone] = {}
        """Topics that are durably deleted, while their partitions may still be in the log."""
        self._behind: dict[str, None] = {}
        """Names of topics whose partitions in the log may not match their settings yet, in
        order.
        """
        self._strays: list[PartitionId] = []
        """Partitions that were created for a change that was then refused."""
        self._topic_journal = Journal[TopicKey, TopicValue](
            log, TOPICS, TopicKey, TopicSet | TopicGone
        )
        self._cursor_journal = Journal[CursorKey, Cursor](log, CURSORS, CursorKey, Cursor)

    def load(self, now_ms: int) -> None:
        """Replay the journals, and complete changes that a crash interrupted."""
        self._replay_into(self.topics)
        self._cursor_journal.replay(lambda key, value: self.cursors.apply(CursorChange(key, value)))
        for topic in self.topics:
            if not topic.internal:
                self._open(topic)
                self._behind[topic.name] = None
        self.deleted = dict(self.topics.going)
        with suppress(*REFUSALS):
            self.change_cursors(self.cursors.forget(self._stray_partitions()), now_ms)
            for name in list(self.deleted):
                self.forget_topic(name, now_ms)
        self.catch_up()

    def _replay_into(self, topics: Topics) -> None:
        for name, topic_id in IDS.items():
            topics.apply(TopicChange(TopicKey(name), TopicSet(topic_id, SETTINGS_OF[name], 0)))
        self._topic_journal.replay(lambda key, value: topics.apply(TopicChange(key, value)))

    def change_topics(self, changes: Sequence[TopicChange], now_ms: int) -> Durable:
        """Append and apply changes to topics; if the append is refused, nothing has changed."""
        made: list[PartitionId] = []
        try:
            for change in changes:
                self._make_ready(change, made)
            durable = self._topic_journal.append(changes, now_ms)
        except MainstemError:
            self._strays += made
            self.catch_up()
            raise
        for change in changes:
            self.topics.apply(change)
            self._reopen(change.key.name)
        self.catch_up()
        return durable

    def _make_ready(self, change: TopicChange, made: list[PartitionId]) -> None:
        """Create and update partitions in the log for a change; adds new ones to ``made``."""
        name, value = change.key.name, change.value
        if not isinstance(value, TopicSet):
            return
        was = self.topics.find(name)
        old = () if was is None else was.partitions
        self._behind[name] = None
        for number in range(len(old), value.settings.partitions):
            made.append(PartitionId(value.id, number))
            self.log.ensure(made[-1], name, value.settings)
        becomes = value.settings.durability
        if was is not None and becomes is Durability.FSYNC is not was.settings.durability:
            # Events published under the new settings must have the new durability.
            for partition in old:
                self.log.ensure(partition, name, was.settings.altered(durability=becomes))

    def catch_up(self) -> None:
        """Make the log's partitions match the topics; a full disk leaves the rest for a retry."""
        with suppress(*REFUSALS):
            self.log.delete([at for at in self._strays if not self._is_known(at)])
            self._strays.clear()
            while self._behind:
                name = next(iter(self._behind))
                for topic in self.topics.matching(name):
                    for partition in topic.partitions:
                        self.log.ensure(partition, name, topic.settings)
                del self._behind[name]
        if self.is_behind:
            self.alarm()

    @property
    def is_behind(self) -> bool:
        """Whether steps of a change to topics still wait for disk space."""
        return bool(self._behind or self._strays or self.deleted)

    def go_back(self) -> list[str]:
        """After a failed commit, undo topic changes that are not durable; return those topics."""
        kept = Topics()
        self._replay_into(kept)
        names = {topic.name for topics in (self.topics, kept) for topic in topics}
        changed = [name for name in names if self.topics.find(name) != kept.find(name)]
        for name in changed:
            topic = kept.find(name)
            value = None if topic is None else TopicSet(topic.id, topic.settings, topic.created_ms)
            self.topics.apply(TopicChange(TopicKey(name), value))
            self._reopen(name)
        return changed

    def forget_topic(self, name: str, now_ms: int) -> None:
        """Delete the partitions of a deleted topic from the log, then free its name."""
        gone = self.deleted[name]
        self.log.delete([PartitionId(gone.id, number) for number in range(gone.partitions)])
        self.change_topics(self.topics.forget(name), now_ms)
        del self.deleted[name]

    def _reopen(self, name: str) -> None:
        topic = self.topics.find(name)
        if topic is not None:
            self._open(topic)
            return
        gone = self.opened.pop(name, None)
        if gone is not None:
            self.gates.pop(gone.topic.id, None)

    def change_cursors(self, changes: Sequence[CursorChange], now_ms: int) -> Durable:
        """Append and apply changes to cursors."""
        durable = self._cursor_journal.append(changes, now_ms)
        is_first = not self.cursors
        for change in changes:
            self.apply_cursor(change)
        if is_first and changes:
            # These are the first cursors, so expiry is due from now on.
            self.alarm()
        return durable

    def apply_cursor(self, change: CursorChange) -> None:
        """Apply a change to a cursor (committed offset) that was appended.

        If the cursor moves back, the group reads events again that it has already acked, so the log
        must no longer delete single acked events of the partition.
        """
        at, cursor = PartitionId(change.key.topic_id, change.key.partition), change.value
        known = self.cursors.at(change.key.group, at)
        self.cursors.apply(change)
        if cursor is not None and known is not None and cursor.offset < known.offset:
            self.keep_all(at)

    def keep_all(self, partition: PartitionId) -> None:
        """Withdraw the permission to delete single acked events of a partition.

        ``delete_acked`` gives it (see ``Log.thin``).
        """
        topic = self.topics.by_id(partition.topic_id)
        if topic is not None and topic.settings.delete_acked:
            # A deleted partition, or one of a stopped log, is not thinned anyway.
            with suppress(MainstemError):
                self.log.thin(partition, 0, ())

    def cursor_batches(self, changes: Sequence[CursorChange], now_ms: int) -> Batches:
        """Encode changes to cursors as record batches, which the caller appends with others."""
        return self._cursor_journal.batches(changes, now_ms)

    def at(self, topic: str, number: int) -> PartitionId:
        """Return a partition's id by topic and number; raises UnknownTopic, UnknownPartition."""
        partitions = self.topics.get(topic).partitions
        if not 0 <= number < len(partitions):
            raise UnknownPartition(topic, number, len(partitions))
        return partitions[number]

    def find(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[list[PartitionId], dict[TopicPartition, MainstemError]]:
        """Return the ids of the partitions that exist, and an error for each that does not."""
        found: list[PartitionId] = []
        refused: dict[TopicPartition, MainstemError] = {}
        for topic, number in partitions:
            try:
                found.append(self.at(topic, number))
            except MainstemError as error:
                refused[topic, number] = error
        return found, refused

    def make_room(self, partitions: Sequence[PartitionId]) -> list[Callback]:
        """Return callbacks that wake the producers waiting for room in these partitions' topics."""
        calls: list[Callback] = []
        if self.gates:
            for topic_id in {partition.topic_id for partition in partitions}:
                gate = self.gates.get(topic_id)
                if gate is not None:
                    calls += gate.make_room()
        return calls

    def _open(self, topic: Topic) -> None:
        """Update ``opened`` and ``gates``, used by publishing, for a created or changed topic."""
        was = self.opened.get(topic.name)
        # A new object each time, so that a concurrent publish never sees half of a change.
        opened = OpenTopic(topic, Turns() if was is None else was.turns)
        gate = self.gates.get(topic.id)
        if gate is None and topic.settings.max_backlog is not None:
            gate = Gate(topic, self.log, self.cursors, self.groups.is_live, self._before_cut)
            self.gates[topic.id] = gate
        if gate is not None:
            gate.topic = topic
            opened.gate = gate if topic.settings.max_backlog is not None else None
        self.opened[topic.name] = opened

    def _before_cut(self, partition: PartitionId, start: int) -> None:
        self.before_cut(partition, start)

    def _is_known(self, at: PartitionId) -> bool:
        topic = self.topics.by_id(at.topic_id)
        return topic is not None and at.number < len(topic.partitions)

    def _stray_partitions(self) -> list[PartitionId]:
        """Return partitions that have cursors but whose topic is deleted."""
        return [at for at in self.cursors.partitions() if self.topics.by_id(at.topic_id) is None]
