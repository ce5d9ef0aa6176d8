"""What the broker knows: topics and cursors as folds over their journals, groups, and one lock.

Everything here is called under the lock. A change is appended to its journal and then applied,
without waiting in between: the next decision sees it at once, and only answers wait for the disk.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from mainstem.broker.cursors import Cursor, CursorChange, CursorKey, Cursors
from mainstem.broker.groups import Groups
from mainstem.broker.journal import CURSORS, IDS, SETTINGS, TOPICS, Journal
from mainstem.broker.overload import Gate
from mainstem.broker.topics import DEFAULTS as TOPIC_LIMITS
from mainstem.broker.topics import (
    Topic,
    TopicChange,
    TopicGone,
    TopicKey,
    TopicLimits,
    Topics,
    TopicSet,
    TopicValue,
)
from mainstem.core.errors import MainstemError, UnknownPartition
from mainstem.core.partitioner import Turns
from mainstem.log.port import Durable, Log, PartitionId, WritableBatch

Call = Callable[[], None]


class OpenTopic:
    """A topic with what the running broker keeps for it."""

    __slots__ = ("gate", "takes_all", "topic", "turns")

    def __init__(self, topic: Topic, turns: Turns) -> None:
        self.topic = topic
        self.turns = turns
        self.gate: Gate | None = None
        """Set while the topic limits its backlog."""
        settings = topic.settings
        self.takes_all = settings.max_backlog is None and settings.verbatim and not settings.deep
        """Whether every whole batch is taken, at once and as it is."""


class State:
    """The folds, the journals they are read from, and the lock they are used under."""

    def __init__(self, log: Log, hand_over_ms: int, limits: TopicLimits = TOPIC_LIMITS) -> None:
        self.log = log
        self.lock = threading.Lock()
        self.topics = Topics(limits)
        self.cursors = Cursors()
        self.groups = Groups(self.topics, hand_over_ms)
        self.opened: dict[str, OpenTopic] = {}
        """The topics that can be published to, by name."""
        self.gates: dict[str, Gate] = {}
        """The gates of topics that limit, or once limited, their backlog, by topic id."""
        self.before_cut: Callable[[PartitionId, int], None] = lambda *_: None
        """Told before events before an offset are dropped."""
        self._topic_journal = Journal[TopicKey, TopicValue](
            log,
            TOPICS,
            msgspec.json.Decoder(TopicKey).decode,
            msgspec.json.Decoder(TopicSet | TopicGone).decode,
        )
        self._cursor_journal = Journal[CursorKey, Cursor](
            log,
            CURSORS,
            msgspec.json.Decoder(CursorKey).decode,
            msgspec.json.Decoder(Cursor).decode,
        )

    def load(self, now_ms: int) -> None:
        """Replay the journals, and finish what a crash left half done."""
        for name, topic_id in IDS.items():
            self.topics.apply(TopicChange(TopicKey(name), TopicSet(topic_id, SETTINGS, 0)))
        self._topic_journal.replay(lambda key, value: self.topics.apply(TopicChange(key, value)))
        self._cursor_journal.replay(lambda key, value: self.cursors.apply(CursorChange(key, value)))
        for topic in self.topics:
            if not topic.internal:
                self._open(topic)
        self.finish_deletions(now_ms)
        self.change_cursors(self.cursors.forget(self._stray_partitions()), now_ms)

    def change_topics(self, changes: Sequence[TopicChange], now_ms: int) -> Durable:
        """Write changes of topics down and make them true."""
        durable = self._topic_journal.append(changes, now_ms)
        for change in changes:
            was = self.topics.find(change.key.name)
            self.topics.apply(change)
            topic = self.topics.find(change.key.name)
            if topic is None:
                self._close(change.key.name)
                continue
            try:
                self._open(topic)
            except MainstemError:
                self.put_back(change.key.name, was, now_ms)
                raise
        return durable

    def put_back(self, name: str, was: Topic | None, now_ms: int) -> None:
        """Make a topic what it was before a change that could not be carried out, or not kept."""
        value = None if was is None else TopicSet(was.id, was.settings, was.created_ms)
        change = TopicChange(TopicKey(name), value)
        self.topics.apply(change)
        if was is None:
            self._close(name)
        # Without room, or after the log has stopped, the next start finds what was written down.
        with suppress(MainstemError):
            self._topic_journal.append([change], now_ms)

    def _close(self, name: str) -> None:
        gone = self.opened.pop(name, None)
        if gone is not None:
            self.gates.pop(gone.topic.id, None)

    def change_cursors(self, changes: Sequence[CursorChange], now_ms: int) -> Durable:
        """Write changes of cursors down and make them true."""
        durable = self._cursor_journal.append(changes, now_ms)
        for change in changes:
            self.cursors.apply(change)
        return durable

    def cursor_batches(
        self, changes: Sequence[CursorChange], now_ms: int
    ) -> list[tuple[PartitionId, WritableBatch]]:
        """Return changes of cursors as they are appended, to be appended with other things."""
        return self._cursor_journal.batches(changes, now_ms)

    def at(self, topic: str, number: int) -> PartitionId:
        """Return a partition by its topic's name; raises UnknownTopic, UnknownPartition."""
        partitions = self.topics.get(topic).partitions
        if not 0 <= number < len(partitions):
            raise UnknownPartition(topic, number, len(partitions))
        return partitions[number]

    def finish_deletions(self, now_ms: int) -> None:
        """Take the partitions of deleted topics out of the log, then forget the topics."""
        for name, gone in list(self.topics.going.items()):
            self.log.delete([PartitionId(gone.id, number) for number in range(gone.partitions)])
            self.change_topics(self.topics.forget(name), now_ms)

    def make_room(self, partitions: Sequence[PartitionId]) -> list[Call]:
        """Return how to tell the producers held at these partitions to try again."""
        calls: list[Call] = []
        if self.gates:
            for topic_id in {partition.topic_id for partition in partitions}:
                gate = self.gates.get(topic_id)
                if gate is not None:
                    calls += gate.make_room()
        return calls

    def _open(self, topic: Topic) -> None:
        """Make the log's partitions as the topic says, and let producers find it."""
        was = self.opened.get(topic.name)
        for partition in topic.partitions:
            self.log.ensure(partition, topic.name, topic.settings)
        # A new object each time: a publish under way must not see half of a change.
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

    def _stray_partitions(self) -> list[PartitionId]:
        """Return partitions that have cursors, but no topic any more."""
        return [at for at in self.cursors.partitions() if self.topics.by_id(at.topic_id) is None]
