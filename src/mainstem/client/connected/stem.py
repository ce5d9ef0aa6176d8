"""A log on a server, mainstem or Apache Kafka: ``mainstem.connect``."""

import atexit
from collections.abc import Callable
from weakref import WeakSet

from mainstem.client.blocking_stem import BlockingStem
from mainstem.client.connected.delayed_events import store
from mainstem.client.connected.groups import ConnectedGroups
from mainstem.client.connected.queue import ConnectedQueue
from mainstem.client.connected.queues import ConnectedQueues
from mainstem.client.connected.subscription import ConnectedSubscription
from mainstem.client.connected.topics import ConnectedTopics
from mainstem.client.connected.writer import ConnectedAppender
from mainstem.client.due_times import DueTime
from mainstem.client.queue_options import QueueOptions
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import Values, event_of
from mainstem.client.writer import WriterId
from mainstem.core.errors import Closed, MainstemError, UnknownPartition, UnknownTopic
from mainstem.core.event import Event, Position
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster, Setting
from mainstem.remote.producer import DeliveryReport, DeliveryReports
from mainstem.remote.producer_pool import ProducerPool


def connect(address: str, *, timeout_s: float = 5.0, **settings: Setting) -> "ConnectedStem":
    """Connect to a mainstem server or a Kafka cluster.

    ``address`` is ``host:port``, or several of them, separated by commas. Raises Unreachable if no
    server answers within ``timeout_s`` seconds. Other keywords are librdkafka's settings with
    underscores for dots, such as ``security_protocol="SASL_SSL"``.
    """
    cluster = Cluster(address, timeout_s=timeout_s, settings=settings)
    cluster.check_reachable()
    administration = Admin(cluster)
    administration.partitions()
    return ConnectedStem(administration)


class ConnectedStem(BlockingStem[ConnectedSubscription, ConnectedQueue]):
    """Implements ``Stem`` through the Kafka protocol; safe to use from several threads."""

    _topics: ConnectedTopics
    _queues: ConnectedQueues

    def __init__(self, administration: Admin) -> None:
        super().__init__()
        self._administration = administration
        self._producers = ProducerPool(administration)
        self._closed = False
        self._topics = ConnectedTopics(administration, self.check_open, self._producers.forget)
        self._groups = ConnectedGroups(administration, self._settle_groups)
        self._queues = ConnectedQueues(administration, self._reaper, self._settle_groups)
        self._subscriptions: WeakSet[ConnectedSubscription] = WeakSet()
        self._open_queues: WeakSet[ConnectedQueue] = WeakSet()
        # If a program exits without closing, commit what its consumers have finished.
        atexit.register(self.close_now, failed=True)

    @property
    def address(self) -> str:
        """The address of the server as given to ``connect``."""
        return self._administration.cluster.address

    @property
    def queues(self) -> ConnectedQueues:
        """Operations on queues: list, show, peek, purge, move, delete."""
        return self._queues

    def _publish(self, topic: str, event: Event, partition: int | None) -> Position:
        try:
            return self.send(topic, event, partition).wait()
        except (UnknownTopic, UnknownPartition):
            return self.send(topic, event, partition, anew=True).wait()

    def send(
        self,
        topic: str,
        event: Event,
        partition: int | None,
        told: Callable[[], None] | None = None,
        *,
        anew: bool = False,
    ) -> DeliveryReport:
        """Send an event; return a report that can be waited for.

        Another thread calls ``told`` when the server has acknowledged the event. ``anew`` fetches
        the topic's metadata again, as the topic may have been created since.
        """
        self.check_open()
        if anew:
            self._producers.forget(topic)
        return DeliveryReport(self._producers.to(topic), topic, event, partition, told)

    def _schedule(self, topic: str, event: Event, due: DueTime, partition: int | None) -> None:
        self.check_open()
        store(self._administration, topic, event, due, partition)

    def delay(self, topic: str, event: Event, due: DueTime, partition: int | None) -> None:
        """Store an event on the server, which publishes it when it is due."""
        self._schedule(topic, event, due, partition)

    def publish_many(self, topic: str, events: Values, *, partition: int | None = None) -> int:
        """Append many events in large batches; return how many, once all are durable.

        If one is refused, or the iterable raises, events before it may have been published.
        """
        self.check_open()
        deliveries = DeliveryReports(self._producers.to(topic), topic, partition)
        try:
            for value in events:
                deliveries.put(event_of(value))
        finally:
            deliveries.settle()
        return deliveries.wait()

    def open_subscription(self, options: SubscriptionOptions) -> ConnectedSubscription:
        """Subscribe; closing the stem will close the subscription."""
        self._settle_groups()
        made = ConnectedSubscription(self._administration, options, self._reaper)
        self._reaper.start()
        self._subscriptions.add(made)
        return made

    def open_queue(self, options: QueueOptions) -> ConnectedQueue:
        """Join a queue as a consumer; closing the stem will close the consumer."""
        made = self._queues.open(options)
        self._reaper.start()
        self._open_queues.add(made)
        return made

    def _partitions(self, topic: str) -> int:
        return self._administration.count(topic)

    def _appender(self, writer: WriterId) -> ConnectedAppender:
        limit = self._producers.settings(writer.topic).max_batch_bytes
        cluster = self._administration.cluster
        return ConnectedAppender(cluster, self._topics, writer, max_batch_bytes=limit)

    def check_open(self) -> None:
        """Raise Closed if the stem was closed."""
        if self._closed:
            raise Closed("the stem has been closed; connect again")

    def close_now(self, *, failed: bool) -> None:
        """Close; if ``failed`` (an error, or exit), events returned last count as unfinished."""
        if self._closed:
            return
        atexit.unregister(self.close_now)
        self._closed = True
        self._reaper.stop()
        refused: MainstemError | None = None
        for each in list(self._subscriptions):
            try:
                each.stem_closes(failed=failed)
            except MainstemError as error:
                refused = error
        for queue in list(self._open_queues):
            try:
                queue.close_for("the stem has been closed; connect again")
            except MainstemError as error:
                refused = error
        for writer in list(self._writers):
            writer.close_for("the stem has been closed; connect again")
        self._queues.close()
        self._producers.close()
        self._administration.close()
        if refused is not None and not failed:
            raise refused
