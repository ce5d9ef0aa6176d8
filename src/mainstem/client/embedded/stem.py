"""A log in this process: ``mainstem.open``."""

import atexit
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Protocol
from weakref import WeakSet

import msgspec

from mainstem.broker.door import DelayedEvent, Durable, HeldPublish, Published
from mainstem.client.blocking_stem import BlockingStem
from mainstem.client.due_times import DueTime
from mainstem.client.embedded.delay_timer import DelayClock
from mainstem.client.embedded.feed import Feed
from mainstem.client.embedded.groups import EmbeddedGroups
from mainstem.client.embedded.publishing import Bulk, Wait
from mainstem.client.embedded.queue import EmbeddedQueue
from mainstem.client.embedded.queue_consumer import QueueConsumer
from mainstem.client.embedded.queues import EmbeddedQueues
from mainstem.client.embedded.subscription import EmbeddedSubscription
from mainstem.client.embedded.topics import EmbeddedTopics
from mainstem.client.embedded.writer import EmbeddedAppender
from mainstem.client.queue_options import QueueOptions
from mainstem.client.reaper import Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import Values, event_of
from mainstem.client.writer import WriterId
from mainstem.core.errors import Closed, MainstemError, TopicExists, UnknownTopic
from mainstem.core.event import Event, Position
from mainstem.node.config import Config, load_config
from mainstem.node.node import Node, Report, open_node, open_view

IN_MEMORY = ":memory:"

_open_stems: WeakSet["EmbeddedStem"] = WeakSet()


def open_stem(path: str | os.PathLike[str], **config: object) -> "EmbeddedStem":
    """Open the log in a data directory, which is created if necessary; ``:memory:`` stores nothing.

    Keywords are the settings of ``mainstem.node.config.Config``; they take precedence over the
    environment and over ``mainstem.toml`` in the directory.
    """
    directory = None if path == IN_MEMORY else Path(path)
    settings = load_config(directory, os.environ, config)
    stem = EmbeddedStem(open_node(directory, settings))
    stem.publish_delayed()
    return stem


def open_briefly(path: Path) -> "EmbeddedStem":
    """Open the log in a data directory for a short-lived program.

    Another program that wants to open it waits instead of failing.
    """
    return EmbeddedStem(open_node(path, load_config(path, os.environ, {}), brief=True))


def view_stem(path: Path) -> "EmbeddedStem":
    """Open a data directory for reading; nothing in it is changed, not even a lock is taken.

    Events published and offsets committed here are lost when it is closed.
    """
    return EmbeddedStem(open_view(path, load_config(path, os.environ, {})))


class OpenSubscription(Protocol):
    """What the stem needs of its open subscriptions, blocking or async."""

    @property
    def feed(self) -> Feed:
        """The feed from which the subscription reads."""

    def stem_closes(self, *, failed: bool) -> None:
        """Close because the stem closes; if ``failed``, the events returned last are unfinished."""


class EmbeddedStem(BlockingStem[EmbeddedSubscription, EmbeddedQueue]):
    """Implements ``Stem`` on a log in this process; safe to use from several threads."""

    _topics: EmbeddedTopics
    _queues: EmbeddedQueues

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self._broker = node.broker
        self._closed: str | None = None
        self._topics = EmbeddedTopics(node.broker, node.defaults, self.check_open)
        self._groups = EmbeddedGroups(node.broker, self._settle_groups)
        after_crash = node.recovery is not None and not node.recovery.clean
        self._queues = EmbeddedQueues(
            node.broker, node.now_ms, self.check_open, after_crash=after_crash
        )
        self._queue_consumers: WeakSet[QueueConsumer] = WeakSet()
        self._subscriptions: WeakSet[OpenSubscription] = WeakSet()
        # Set once, and replaced on close, so that publishing needs no check whether it is open.
        self._append: Callable[[str, Sequence[Event], int | None], Published]
        self._append = node.broker.publish
        self._delay_clock = DelayClock(
            node.broker.delays, node.broker.when_due_earlier, node.now_ms
        )
        _open_stems.add(self)
        # If a program exits without closing, commit what its consumers have finished.
        atexit.register(self.close_now, failed=True)

    @property
    def config(self) -> Config:
        """The settings in force, from keywords, environment, file and defaults."""
        return self.node.config

    @property
    def path(self) -> Path | None:
        """The data directory; None for a log in memory."""
        return self.node.path

    @property
    def recovery(self) -> Report | None:
        """What recovery found when the log was opened; None for a log in memory."""
        return self.node.recovery

    def _publish(self, topic: str, event: Event, partition: int | None) -> Position:
        try:
            published = self._append(topic, (event,), partition)
        except UnknownTopic:
            self.create_unknown(topic)
            published = self._append(topic, (event,), partition)
        published.durable.wait()
        return published.position

    def publish_delayed(self) -> None:
        """Start the thread that publishes delayed events when they are due, if there are any."""
        if self._broker.delays.waiting().events:
            self._delay_clock.start()

    def _schedule(self, topic: str, event: Event, due: DueTime, partition: int | None) -> None:
        due_ms = due.to_ms(self.node.now_ms())
        self.delay(topic, event, due_ms, partition).wait()

    def delay(self, topic: str, event: Event, due_ms: int, partition: int | None) -> Durable:
        """Store an event to be published at ``due_ms``; wait for the result for durability."""
        self.check_open()
        self._delay_clock.start()
        delayed = (DelayedEvent(event, due_ms, topic, partition),)
        try:
            return self._broker.delays.append((), delayed, ()).durable
        except UnknownTopic:
            self.create_unknown(topic)
            return self._broker.delays.append((), delayed, ()).durable

    def publish_many(self, topic: str, events: Values, *, partition: int | None = None) -> int:
        """Append many events in large batches; return how many, once all are durable.

        Events are collected until a batch is full, so a pause of the iterable delays the events
        before it. If it raises, collected events are not published.
        """
        bulk = self.bulk(topic, partition)
        for value in events:
            if bulk.put(event_of(value)):
                for wait in bulk.drain():
                    self._wait(wait)
        for wait in bulk.finish():
            self._wait(wait)
        return bulk.count

    def open_subscription(self, options: SubscriptionOptions) -> EmbeddedSubscription:
        """Subscribe; closing the stem will close the subscription."""
        options = self.with_settings(options)
        made = EmbeddedSubscription(self._broker, options, self.node.now_ms, self._reaper)
        self.register(made)
        return made

    def open_queue(self, options: QueueOptions) -> EmbeddedQueue:
        """Join a queue as a consumer; closing the stem will close the consumer."""
        return EmbeddedQueue(self.join_queue(options), follow=options.follow)

    def _partitions(self, topic: str) -> int:
        return len(self._broker.topic(topic).partitions)

    def _appender(self, writer: WriterId) -> EmbeddedAppender:
        return EmbeddedAppender(self._broker, self._topics, self.node.now_ms, self._wait, writer)

    # For the async version

    @property
    def reaper(self) -> Reaper:
        """Closes subscriptions that were garbage-collected without being closed."""
        return self._reaper

    def check_open(self) -> None:
        """Raise Closed if the stem was closed."""
        if self._closed:
            raise Closed(self._closed)

    def create_unknown(self, topic: str) -> None:
        """Create a missing topic on publish if ``auto_create`` is on; else raise UnknownTopic."""
        self.check_open()
        if not self.config.auto_create:
            raise UnknownTopic(topic)
        try:
            self._broker.create_topic(topic, self.node.defaults)
        except TopicExists:
            return  # Another thread has just created it.

    def bulk(self, topic: str, partition: int | None) -> Bulk:
        """Return a bulk publish to a topic; the caller adds the events and does the waiting."""
        self.check_open()
        try:
            self._broker.topic(topic)
        except UnknownTopic:
            self.create_unknown(topic)
        return Bulk(
            self._broker,
            topic,
            partition,
            batch_bytes=self.config.batch_bytes,
            pending_bytes=self.config.pending_bytes,
        )

    def with_settings(self, options: SubscriptionOptions) -> SubscriptionOptions:
        """Return the options with chunk size and commit interval from the stem's settings.

        Also closes subscriptions that were garbage-collected, as a new one follows.
        """
        self._settle_groups()
        return msgspec.structs.replace(
            options, fetch_bytes=self.config.fetch_bytes, commit_s=self.config.commit_ms / 1000
        )

    def join_queue(self, options: QueueOptions) -> QueueConsumer:
        """Join a queue as a consumer; closing the stem will close the consumer."""
        self.check_open()
        if not self._broker.topics(options.topic):
            self.create_unknown(options.topic)
        consumer = self._queues.open(options)
        self._queue_consumers.add(consumer)
        return consumer

    def register(self, subscription: OpenSubscription) -> None:
        """Register a subscription, so that closing the stem closes it, too."""
        self._reaper.start()
        self._subscriptions.add(subscription)

    def try_publish(
        self, topic: str, event: Event, partition: int | None, held: HeldPublish | None = None
    ) -> Published | HeldPublish:
        """Append one event without waiting for durability, or for space in a full topic.

        If the topic is full, returns HeldPublish, to be passed as ``held`` when there is space.
        """
        self.check_open()
        try:
            return self._broker.try_publish(topic, (event,), partition, held)
        except UnknownTopic:
            self.create_unknown(topic)
            return self._broker.try_publish(topic, (event,), partition, held)

    def _wait(self, wait: Wait) -> None:
        if wait.until_ms is None:
            wait.durable.wait()
        else:
            wait.durable.wait(max(0, wait.until_ms - self.node.now_ms()) / 1000)

    def close_now(self, *, failed: bool) -> None:
        """Close; if ``failed`` (an error, or exit), events returned last count as unfinished."""
        if self._closed:
            return
        atexit.unregister(self.close_now)
        self._refuse("the stem has been closed; open it again")
        _open_stems.discard(self)
        self._reaper.stop()
        self._delay_clock.stop()
        for writer in list(self._writers):
            writer.close_for("the stem has been closed; open it again")
        refused: MainstemError | None = None
        for consumer in list(self._queue_consumers):
            try:
                consumer.leave().wait()
                consumer.check_settled()
            except MainstemError as error:
                refused = error
        for each in list(self._subscriptions):
            try:
                each.stem_closes(failed=failed)
            except MainstemError as error:
                refused = error
        self.node.close()
        if refused is not None and not failed:
            raise refused

    def _refuse(self, reason: str) -> None:
        self._closed = reason

        def refuse(topic: str, events: Sequence[Event], partition: int | None) -> NoReturn:
            raise Closed(reason)

        self._append = refuse

    def forget(self) -> None:
        """Close in the child process after a fork, without touching the log."""
        self._refuse("the stem was opened before a fork; open another directory in this process")
        for writer in list(self._writers):
            writer.forget("the writer was opened before a fork; open another one")
        for each in list(self._subscriptions):
            each.feed.abandon()
        for consumer in list(self._queue_consumers):
            consumer.forget("the queue was opened before a fork; open another one")


def _forget_after_fork() -> None:
    for stem in list(_open_stems):
        stem.forget()
    _open_stems.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
