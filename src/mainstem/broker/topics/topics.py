"""Creating, altering and deleting topics, with the effects on groups, producers and transactions.

How this works: a change is decided, appended and applied under the lock; if it is refused, nothing
has changed (see ``state``). The next decision sees it at once, before it is durable. A failed
commit stops the log for good; then all changes that are not durable are undone.

A deletion hides the topic at once, but deletes its data only when the deletion is durable: until
then it could be undone. Steps that fail on a full disk are retried until there is space.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from mainstem.broker.callbacks import Callback, make
from mainstem.broker.groups.consumer.coordinator import ConsumerGroups
from mainstem.broker.producers.producers import Producers
from mainstem.broker.state import REFUSALS, State
from mainstem.broker.topics.catalog import Topic, TopicGone
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import Durable, PartitionId


class TopicDone(NamedTuple):
    """A topic after a change; ``durable`` is done when that change is durable."""

    topic: Topic
    durable: Durable


class TopicChanges:
    """Creates, alters and deletes topics: the public interface; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        consumers: ConsumerGroups,
        producers: Producers,
        transactions: Transactions,
        new_id: Callable[[], str],
    ) -> None:
        self._state = state
        self._consumers = consumers
        self._producers, self._transactions = producers, transactions
        self._now_ms, self._new_id = state.clocks.now_ms, new_id
        self.changed: Callable[[str], None] = lambda _: None
        """Called with the id of an altered or durably deleted topic, without the lock."""

    def create(self, name: str, settings: TopicSettings) -> TopicDone:
        """Create a topic; raises TopicExists, InvalidName, InvalidSetting, StorageFull."""
        now_ms = self._now_ms()
        with self._state.lock:
            changes = self._state.topics.create(name, settings, self._new_id(), now_ms)
            durable = self._state.change_topics(changes, now_ms)
            calls = self._tell(name)
            done = TopicDone(self._state.topics.get(name), durable)
        make(calls)
        durable.then(self._check_kept)
        return done

    def alter(self, name: str, changes: dict[str, object]) -> TopicDone:
        """Change some settings of a topic; the number of partitions can only grow."""
        with self._state.lock:
            was = self._state.topics.get(name)
            settings = was.settings.altered(**changes)
            decided = self._state.topics.alter(name, settings)
            if settings.compact and not was.settings.compact:
                self._check_empty(was)
            durable = self._state.change_topics(decided, self._now_ms())
            calls = self._tell(name)
            calls += self._state.make_room(was.partitions)
            done = TopicDone(self._state.topics.get(name), durable)
        make(calls)
        self.changed(was.id)
        durable.then(self._check_kept)
        return done

    def delete(self, name: str) -> Durable:
        """Delete a topic with all its events, and every group's committed offsets in it."""
        with self._state.lock:
            changes = self._state.topics.delete(name)
            topic = self._state.topics.get(name)
            gate = self._state.gates.get(topic.id)
            durable = self._state.change_topics(changes, self._now_ms())
            calls = self._tell(name)
            calls += [] if gate is None else gate.make_room()
        make(calls)

        def decided(error: MainstemError | None) -> None:
            if error is None:
                self._deleted(topic)
            self._check_kept(error)

        durable.then(decided)
        return durable

    def catch_up(self) -> None:
        """Do the remaining steps of changes that waited for disk space."""
        for name, gone in list(self._state.deleted.items()):
            with suppress(*REFUSALS):
                self.changed(gone.id)
                with self._state.lock:
                    self._take_away(name, gone)
        with self._state.lock:
            self._state.catch_up()

    def _deleted(self, topic: Topic) -> None:
        """Complete a deletion, now that it is durable."""
        with self._state.lock:
            gone = self._state.topics.going.get(topic.name)
            if gone is not None and gone.id == topic.id:
                self._state.deleted[topic.name] = gone
                self._state.alarm()
        self.catch_up()

    def _take_away(self, name: str, gone: TopicGone) -> None:
        """Delete the cursors, producers and partitions of a deleted topic, if they still exist."""
        if self._state.deleted.get(name) is not gone:
            return
        now_ms = self._now_ms()
        partitions = [PartitionId(gone.id, number) for number in range(gone.partitions)]
        self._state.change_cursors(self._state.cursors.forget(partitions), now_ms)
        self._producers.forget(partitions)
        self._transactions.forget(partitions)
        self._state.forget_topic(name, now_ms)

    def _check_kept(self, error: MainstemError | None) -> None:
        """If the commit of a topic change failed, undo all topic changes that are not durable."""
        if error is None:
            return
        calls: list[Callback] = []
        # If the journal cannot be read, the durable state is unknown until the next start.
        with suppress(MainstemError), self._state.lock:
            for name in self._state.go_back():
                calls += self._tell(name)
        make(calls)

    def _tell(self, name: str) -> list[Callback]:
        """Notify the groups of a changed topic; return the callbacks to call."""
        self._consumers.topic_changed(name)
        return list(self._state.groups.topic_changed(name, self._now_ms()))

    def _check_empty(self, topic: Topic) -> None:
        for partition in topic.partitions:
            bounds = self._state.log.bounds(partition)
            if bounds.start != bounds.end:
                raise InvalidSetting(
                    f"topic {topic.name!r} holds events, so compact cannot be turned on: those "
                    "without a key would be lost; trim it first, or create another topic"
                )
