"""A log on a server, ours or a real Kafka: ``mainstem.connect``."""

import atexit
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, Self
from weakref import WeakSet

from mainstem.client.connected.groups import ConnectedGroups
from mainstem.client.connected.queue import ConnectedQueue
from mainstem.client.connected.queues import ConnectedQueues
from mainstem.client.connected.subscription import ConnectedSubscription
from mainstem.client.connected.topics import ConnectedTopics
from mainstem.client.connected.writer import ConnectedAppender
from mainstem.client.info import Order
from mainstem.client.reaper import Reaper
from mainstem.client.starts import Start
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import HeadersLike, Key, Value, make_event, value_bytes
from mainstem.client.writer import LogWriter, check_writer, only_partition
from mainstem.core.errors import Closed, MainstemError, UnknownPartition, UnknownTopic
from mainstem.core.event import Event, Position
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster, Setting
from mainstem.remote.producer import Deliveries, Delivery
from mainstem.remote.producer_pool import ProducerPool


def connect(address: str, *, timeout_s: float = 5.0, **settings: Setting) -> "ConnectedStem":
    """Connect to a server, ours or a real Kafka: host:port, or several with commas between.

    Raises Unreachable if nobody answers in ``timeout_s`` seconds. Other keywords are librdkafka's
    settings with underscores for dots, such as ``security_protocol="SASL_SSL"``.
    """
    cluster = Cluster(address, timeout_s=timeout_s, settings=settings)
    cluster.check_reachable()
    administration = Admin(cluster)
    administration.partitions()
    return ConnectedStem(administration)


class ConnectedStem:
    """Implements ``Stem`` through the Kafka protocol; safe to use from several threads."""

    def __init__(self, administration: Admin) -> None:
        self._administration = administration
        self._producers = ProducerPool(administration)
        self._closed = False
        self._reaper = Reaper()
        self._topics = ConnectedTopics(administration, self._check_open, self._producers.forget)
        self._groups = ConnectedGroups(administration, self._settle_groups)
        self._queues = ConnectedQueues(administration, self._reaper, self._settle_groups)
        self._subscriptions: WeakSet[ConnectedSubscription] = WeakSet()
        self._open_queues: WeakSet[ConnectedQueue] = WeakSet()
        self._writers: WeakSet[LogWriter] = WeakSet()
        # A program that forgets to close still commits what its consumers finished.
        atexit.register(self._close, failed=True)

    @property
    def address(self) -> str:
        """Where the server is."""
        return self._administration.cluster.address

    @property
    def topics(self) -> ConnectedTopics:
        """Create, list, show, alter, delete, trim."""
        return self._topics

    @property
    def groups(self) -> ConnectedGroups:
        """List, show, seek, delete."""
        return self._groups

    @property
    def queues(self) -> ConnectedQueues:
        """List, show, peek, delete."""
        return self._queues

    def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Position:
        """Append one event; return where it stands, once it is as durable as the topic says."""
        event = make_event(value, key, headers, timestamp_ms)
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
    ) -> Delivery:
        """Put an event on its way; ``told`` is called, in another thread, when it has arrived.

        ``anew`` looks at the topic again, which may be there by now.
        """
        self._check_open()
        if anew:
            self._producers.forget(topic)
        return Delivery(self._producers.to(topic), topic, event, partition, told)

    def publish_many(
        self, topic: str, events: Iterable[Value | Event], *, partition: int | None = None
    ) -> int:
        """Append many events in large batches; return how many, once all are durable.

        If one is refused, or the iterable raises, those before it may have been published.
        """
        self._check_open()
        deliveries = Deliveries(self._producers.to(topic), topic, partition)
        try:
            for value in events:
                deliveries.put(value if isinstance(value, Event) else Event(value_bytes(value)))
        finally:
            deliveries.settle()
        return deliveries.wait()

    def subscribe(
        self,
        *topics: str,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> ConnectedSubscription:
        """Read topics (names or patterns such as ``orders.*``) as an iterator of events.

        With a group: members share the partitions and go on from the group's cursors; ``start``
        holds where there is no cursor yet. Without: everything, from ``start``, nothing stored.
        Without ``follow`` it ends at what was the tail when it began.
        """
        self._settle_groups()
        options = SubscriptionOptions(
            topics=topics,
            group=group,
            start=start,
            follow=follow,
            commit=commit,
            partitions=None if partitions is None else tuple(partitions),
        )
        made = ConnectedSubscription(self._administration, options, self._reaper)
        self._reaper.start()
        self._subscriptions.add(made)
        return made

    def queue(
        self,
        topic: str,
        *,
        name: str,
        start: Start = "earliest",
        max_deliveries: int | None = None,
        lock_s: float | None = None,
        order: Order | None = None,
        follow: bool = True,
    ) -> ConnectedQueue:
        """Share the events of a topic one by one with the other consumers of a queue.

        It is a share group of that name; what is given is set for the group. Over the network every
        delivery counts, also one that is given back.
        """
        made = self._queues.open(
            topic,
            name,
            start=start,
            max_deliveries=max_deliveries,
            lock_s=lock_s,
            order=order,
            follow=follow,
        )
        self._reaper.start()
        self._open_queues.add(made)
        return made

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> LogWriter:
        """Become the only writer of that name: the one before is fenced, here and over the network.

        The topic must exist. Events are in one order, so it has one partition, or ``partition`` is
        given.
        """
        self._check_open()
        check_writer(name)
        number = only_partition(topic, self._administration.count(topic), partition)
        settings = self._producers.settings(topic)
        appender = ConnectedAppender(
            self._administration.cluster,
            self._topics,
            topic,
            number,
            name,
            max_batch_bytes=settings.max_batch_bytes,
        )
        made = LogWriter(appender)
        self._writers.add(made)
        return made

    def close(self) -> None:
        """Finish what is under way and let go of the connection."""
        self._close(failed=False)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; an error means that events given out last were not finished."""
        self._close(failed=kind is not None)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the stem has been closed; connect again")

    def _settle_groups(self) -> None:
        """See to it that abandoned members are not taken for live ones."""
        self._check_open()
        self._reaper.reap()

    def _close(self, *, failed: bool) -> None:
        if self._closed:
            return
        atexit.unregister(self._close)
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
