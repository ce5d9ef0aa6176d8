"""Declared queues: each has a topic, a broker queue on it, and consumers.

How this works: the topology has each queue's definition; this module has its topic and broker
queue. A queue that is not durable has a topic of durability ``disk``, which is deleted when the
server starts again. A topic that existed before its queue was declared is shared with other
protocols, and is never deleted here.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from mainstem.broker.door import AT_ONCE, Door, Durable, Order, QueueSettings, RoutedEvent
from mainstem.core.errors import MainstemError, UnknownQueue, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.topology import equivalence
from mainstem.heads.amqp091.adapter.topology.declared import NO_ARGUMENTS, Queue
from mainstem.heads.amqp091.adapter.topology.names import topic_of
from mainstem.heads.amqp091.adapter.topology.queue_arguments import Overflow
from mainstem.heads.amqp091.adapter.topology.refusals import locked
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
    from mainstem.heads.amqp091.adapter.queues.deliveries import Consumer
    from mainstem.heads.amqp091.adapter.service import Service
    from mainstem.heads.context import HeadContext

_logger = logging.getLogger("mainstem.heads.amqp091")

MAX_UNSETTLED = 100_000
"""Limit on unacknowledged messages per priority; high, because RabbitMQ has no such limit."""
EXPIRATION = "expiration"
"""The event header that holds a message's own time to live."""
TRANSIENT = "transient-topic"
"""Kind of stored definition that names the topic of a non-durable queue, deleted at restart."""
SHARED = "shared-topic"
"""Kind of stored definition that names a topic older than its AMQP queue, never deleted here."""
_LONGEST_WAIT_MS = 3_600_000
_SEGMENT_BYTES = 16 * 1024 * 1024
_OVERHEAD_BYTES = 256 * 1024
"""Bytes that properties and headers may use beyond the maximum message size."""

Unseen = tuple[str, int, int]
"""A topic, a partition, and the offset of the last message there, which is not durable yet."""


class DeclaredQueue:
    """An AMQP queue at run time: its definition, its topic and broker queue, its consumers."""

    def __init__(self, record: Queue) -> None:
        self.record = record
        self.name = record.name
        own = topic_of(record.vhost, record.name)
        self.place = (record.topic, own)
        """The topic of the queue, and the name of the broker queue on it."""
        self.owns_topic = record.topic == own
        """Whether the topic belongs to this queue alone, and so is deleted with it."""
        self.most_priority = record.settings.max_priority or 0
        self.consumers: dict[Consumer, None] = {}
        self.used_ms = 0
        """When the queue was last used, in ms of the monotonic clock (for ``x-expires``)."""
        said = record.settings
        has_length = said.max_length is not None or said.max_length_bytes is not None
        self.refuses = has_length and said.overflow is not Overflow.DROP_HEAD
        """Whether the queue refuses messages while it is full, rather than dropping its oldest."""

    def serve_consumers(self, context: "HeadContext") -> None:
        """Deliver available messages to the consumers now, before the caller gets or counts any."""
        context.dispatcher.go_first(*self.place)

    def ready(self, door: Door) -> int:
        """Return the number of messages that are waiting: not delivered to any consumer."""
        state = door.queues.show(*self.place)
        return sum(each.unsettled - each.out for each in state.windows)

    @property
    def settings(self) -> QueueSettings:
        """The settings of the broker queue, from the AMQP queue's arguments."""
        said = self.record.settings
        limit = said.delivery_limit
        drops = said.overflow is Overflow.DROP_HEAD
        return QueueSettings(
            max_deliveries=None if limit is None else limit + 1,
            dead_letters=False,
            dead_letter_route=self._dead_letter_route,
            max_unsettled=MAX_UNSETTLED,
            unsynced=True,
            order=Order.PRIORITY if self.most_priority else Order.NONE,
            ttl_ms=said.message_ttl_ms,
            ttl_header=EXPIRATION,
            max_length=said.max_length if drops else None,
            max_bytes=said.max_length_bytes if drops else None,
        )

    @property
    def _dead_letter_route(self) -> str:
        """The name of the head that routes the queue's dead letters; empty if none does."""
        return "" if self.record.settings.dead_letter_exchange is None else "amqp"


class DeclaredQueues:
    """All declared queues of the AMQP head."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._definitions = service.definitions
        self._queues: dict[tuple[str, str], DeclaredQueue] = {}
        self._by_own_name: dict[str, DeclaredQueue] = {}
        """Queues by the name of their broker queue; these names are unique over all topics."""
        self._gone: dict[str, Durable] = {}
        """Deletions of topics that are not durable yet, by topic; until then no queue of that name
        can be declared.
        """
        self._shared = set(self._definitions.items(SHARED))
        service.context.broker.queues.watch_deletions("amqp", self._deleted_elsewhere)
        self._load()

    def _load(self) -> None:
        """Open the stored queues; delete the topics of the previous run's non-durable queues."""
        topology, broker = self._service.topology, self._service.context.broker
        for vhost in topology.vhosts():
            for record in topology.queues(vhost):
                queue = self._add(DeclaredQueue(record))
                if record.topic in self._shared:
                    queue.owns_topic = False
                try:
                    self._open(broker, queue)
                except MainstemError as error:
                    _logger.error("queue %r cannot be used: %s", queue.name, error)
        for topic in self._definitions.items(TRANSIENT):
            try:
                if broker.topics(topic):
                    broker.delete_topic(topic)
                self._definitions.delete(TRANSIENT, topic)
            except MainstemError as error:
                _logger.warning("topic %s of a deleted queue is not deleted: %s", topic, error)

    def _open(self, broker: Door, queue: DeclaredQueue) -> None:
        """Create the queue's topic and broker queue if they are missing, as after a crash."""
        settings, found = queue.settings, None
        try:
            found = broker.queues.settings(*queue.place)
        except UnknownTopic:
            self._create_topic(broker, queue)
        if found != settings:
            broker.queues.create(*queue.place, settings)

    def _add(self, queue: DeclaredQueue) -> DeclaredQueue:
        self._queues[queue.record.vhost, queue.name] = queue
        self._by_own_name[queue.place[1]] = queue
        queue.used_ms = self._service.clock_ms()
        self._await_expiry(queue)
        return queue

    # Expiry

    def _await_expiry(self, queue: DeclaredQueue) -> None:
        """Set a timer that deletes a queue with ``x-expires`` unless it is used before."""
        expires_ms = queue.record.settings.expires_ms
        if expires_ms is not None:
            due_ms = queue.used_ms + expires_ms - self._service.clock_ms()
            # A timer has a maximum, so longer times are checked in steps.
            wait_ms = min(max(due_ms, 1), _LONGEST_WAIT_MS)
            self._service.context.after(wait_ms, lambda: self._look_at_expiry(queue))

    def _look_at_expiry(self, queue: DeclaredQueue) -> None:
        expires_ms, now_ms = queue.record.settings.expires_ms, self._service.clock_ms()
        if self._by_own_name.get(queue.place[1]) is not queue or expires_ms is None:
            return
        if queue.consumers:
            queue.used_ms = now_ms
        if now_ms - queue.used_ms < expires_ms:
            self._await_expiry(queue)
            return
        try:
            self._remove(self._service.context.broker, queue)
        except MainstemError as error:
            _logger.warning("queue %r has expired, but is not deleted: %s", queue.name, error)

    def __iter__(self) -> Iterator[DeclaredQueue]:
        return iter(self._queues.values())

    # Lookup

    def get(self, vhost: str, name: str) -> DeclaredQueue | None:
        """Return the queue of this name, None if it does not exist."""
        return self._queues.get((vhost, name))

    def at(self, topic: str, name: str) -> DeclaredQueue | None:
        """Return the queue with this topic and broker queue name, None if it does not exist."""
        queue = self._by_own_name.get(name)
        return queue if queue is not None and queue.place[0] == topic else None

    def copies(
        self, vhost: str, names: Iterable[str], event: Event, priority: int | None
    ) -> list[RoutedEvent]:
        """Return, for each named queue that exists, the event and where to append it."""
        found = [self.get(vhost, name) for name in names]
        return [
            RoutedEvent(each.place[0], min(priority or 0, each.most_priority), event)
            for each in found
            if each is not None
        ]

    def find(self, connection: "AmqpConversation", name: str) -> DeclaredQueue:
        """Return a queue that the connection may use; raises AmqpError if there is none."""
        self._service.topology.find_queue(connection.vhost, name, connection.id)
        return self._queues[connection.vhost, name]

    def gone(self, vhost: str, name: str) -> Durable:
        """Return the ``Durable`` of a queue's deletion; until then the name is reserved."""
        return self._gone.get(topic_of(vhost, name), AT_ONCE)

    def unseen(self, vhost: str, name: str) -> list[Unseen]:
        """Return the last message of each partition in which some are not durable yet.

        Each as topic, partition and offset.
        """
        queue, broker = self._queues.get((vhost, name)), self._service.context.broker
        if queue is None:
            return []
        topic, found = queue.place[0], list[Unseen]()
        for number in range(len(broker.topic(topic).partitions)):
            bounds = broker.bounds(topic, number)
            if bounds.tail < bounds.end:
                found.append((topic, number, bounds.end - 1))
        return found

    def _deleted_elsewhere(self, name: str) -> None:
        """Handle the deletion of a broker queue by any protocol; called from any thread."""
        self._service.context.on_loop(partial(self._remove_lost, name))

    def _remove_lost(self, name: str) -> None:
        """Remove an AMQP queue whose broker queue another protocol or an operator deleted."""
        queue = self._by_own_name.get(name)
        if queue is None:
            return
        broker = self._service.context.broker
        try:
            with suppress(UnknownTopic):
                if broker.queues.settings(*queue.place) is not None:
                    return
            self._remove(broker, queue)
        except MainstemError as error:
            _logger.warning("queue %r was deleted, and its definition stays: %s", queue.name, error)

    def _deleted(self, topic: str, durable: Durable) -> None:
        """Reserve the name of a deleted topic until the deletion is durable."""
        self._gone[topic] = durable
        on_loop = self._service.context.on_loop
        durable.then(lambda _: on_loop(partial(self._forget, topic, durable)))

    def _forget(self, topic: str, durable: Durable) -> None:
        if self._gone.get(topic) is durable:
            del self._gone[topic]

    # Declaring and deleting

    def declare(
        self, connection: "AmqpConversation", method: methods.QueueDeclare
    ) -> tuple[DeclaredQueue, Durable]:
        """Declare a queue, or return the existing one of this name.

        Raises AmqpError if the existing one was declared differently.
        """
        topology = self._service.topology
        record, is_new = topology.decide_queue(connection.vhost, connection.id, method)
        if not is_new:
            queue = self._queues[record.vhost, record.name]
            queue.used_ms = self._service.clock_ms()
            return queue, topology.last
        queue = DeclaredQueue(record)
        self._create(connection.door, queue)
        self._add(queue)
        return queue, topology.add_queue(record)

    def _create(self, door: Door, queue: DeclaredQueue) -> None:
        if self._service.context.broker.topics(queue.place[0]):
            self._share(door, queue)
        self._create_topic(door, queue)
        door.queues.create(*queue.place, queue.settings)

    def _create_topic(self, door: Door, queue: DeclaredQueue) -> None:
        topic = queue.place[0]
        if not queue.owns_topic:
            return
        if not queue.record.durable:
            # Stored before the topic is created, so that a crash leaves no unknown topic behind.
            self._definitions.set(TRANSIENT, topic, b"")
        door.create_topic(topic, self._topic_settings(queue.record))
        if topic in self._shared:
            self._shared.remove(topic)
            self._definitions.delete(SHARED, topic)

    def _share(self, door: Door, queue: DeclaredQueue) -> None:
        """Let a new queue use the topic of its name, if that existed before.

        Raises AmqpError if the topic has no broker queue of this name. If it has, another protocol
        or a declaration interrupted by a crash created it; so the AMQP queue must not be exclusive
        or auto-delete.
        """
        topic = queue.place[0]
        if not queue.owns_topic:
            return
        has_priorities = len(door.topic(topic).partitions) > queue.most_priority
        if not has_priorities or door.queues.settings(*queue.place) is None:
            detail = (
                f"queue '{queue.name}' in vhost '{queue.record.vhost}' would be the topic "
                f"'{topic}', which is there already; to share its events, declare a queue of "
                f"another name with the argument x-mainstem-topic='{topic}'"
            )
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *methods.QueueDeclare.ids)
        record = queue.record
        if record.exclusive is not None:
            raise locked(record)
        equivalence.check_property(str(record), "auto_delete", False, record.auto_delete)
        equivalence.check_arguments(str(record), NO_ARGUMENTS, record.arguments, ["x-expires"])
        queue.owns_topic = False
        self._shared.add(topic)
        self._definitions.set(SHARED, topic, b"")

    def _topic_settings(self, record: Queue) -> TopicSettings:
        durability = record.settings.durability
        if durability is None:
            default = self._service.context.defaults.durability
            # The topic and broker queue of a durable queue must survive a restart.
            keeps = record.durable and default is not Durability.MEMORY
            durability = default if keeps else Durability.DISK
        given = self._service.settings
        is_kept = record.durable and not given.delete_acked
        return TopicSettings(
            partitions=record.priorities,
            durability=durability,
            segment_bytes=_SEGMENT_BYTES,
            delete_acked=not is_kept,
            retention_ms=given.retention_ms or None if is_kept else None,
            retention_bytes=given.retention_bytes or None if is_kept else None,
            max_batch_bytes=given.max_message_bytes + _OVERHEAD_BYTES,
        )

    def delete(
        self, connection: "AmqpConversation", name: str, *, if_unused: bool, if_empty: bool
    ) -> tuple[int, Durable]:
        """Delete a queue; return its number of waiting messages, 0 if it does not exist.

        Also returns the ``Durable`` of the deletion.
        """
        topology = self._service.topology
        if topology.queue(connection.vhost, name) is None:
            return 0, topology.last
        queue = self.find(connection, name)
        ready = queue.ready(connection.door)
        what = f"queue '{name}' in vhost '{connection.vhost}'"
        if if_unused and queue.consumers:
            raise AmqpError(
                ReplyCode.PRECONDITION_FAILED, f"{what} in use", *methods.QueueDelete.ids
            )
        if if_empty and ready:
            raise AmqpError(
                ReplyCode.PRECONDITION_FAILED, f"{what} is not empty", *methods.QueueDelete.ids
            )
        return ready, self._remove(connection.door, queue)

    def _remove(self, door: Door, queue: DeclaredQueue) -> Durable:
        """Delete a queue with its bindings and messages; its consumers are cancelled."""
        record = queue.record
        del self._queues[record.vhost, record.name]
        del self._by_own_name[queue.place[1]]
        self._service.full_queues.forget(queue.place[0])
        durable = self._service.topology.remove_queue(record.vhost, record.name)
        # Another protocol may have deleted it meanwhile.
        with suppress(UnknownTopic, UnknownQueue):
            if queue.owns_topic:
                self._deleted(queue.place[0], door.delete_topic(queue.place[0]))
            else:
                door.queues.delete(*queue.place)
        if queue.owns_topic and not record.durable:
            self._definitions.delete(TRANSIENT, queue.place[0])
        return durable

    def delete_exclusive(self, connection: "AmqpConversation") -> list[MainstemError]:
        """Delete the exclusive queues of an ended connection; return errors of these deletions."""
        errors: list[MainstemError] = []
        for record in self._service.topology.owned_queues(connection.vhost, connection.id):
            queue = self._queues[record.vhost, record.name]
            try:
                self._remove(self._service.context.broker, queue)
            except MainstemError as error:
                errors.append(error)
        return errors

    # Consumers

    def check_exclusive(self, queue: DeclaredQueue, consumer: "Consumer") -> None:
        """Raise AmqpError if the queue has a consumer, and it or the new one is exclusive."""
        first = next(iter(queue.consumers), None)
        # An exclusive consumer is the only one, so checking the first is enough.
        if first is not None and (first.exclusive or consumer.exclusive):
            detail = f"queue '{queue.name}' in vhost '{queue.record.vhost}' in exclusive use"
            raise AmqpError(ReplyCode.ACCESS_REFUSED, detail, *methods.BasicConsume.ids)

    def consume(self, queue: DeclaredQueue, consumer: "Consumer") -> None:
        """Add a consumer to its queue's record of consumers."""
        queue.consumers[consumer] = None
        self._service.counts.consumers += 1

    def forget_consumer(self, consumer: "Consumer") -> None:
        """Remove a consumer from its queue's record of consumers."""
        if consumer in consumer.queue.consumers:
            del consumer.queue.consumers[consumer]
            consumer.queue.used_ms = self._service.clock_ms()
            self._service.counts.consumers -= 1

    def end_consumer(self, connection: "AmqpConversation", consumer: "Consumer") -> None:
        """Remove a consumer from its queue; if it was the last one, delete an auto-delete queue."""
        self.forget_consumer(consumer)
        queue = consumer.queue
        is_there = self._by_own_name.get(queue.place[1]) is queue
        if is_there and queue.record.auto_delete and not queue.consumers:
            try:
                self._remove(self._service.context.broker, queue)
            except MainstemError as error:
                connection.warn(f"queue {queue.name!r} is not deleted: {error}")
