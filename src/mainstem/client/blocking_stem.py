"""What ``mainstem.open`` and ``mainstem.connect`` do alike, whatever log is behind."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Generic, Literal, TypeVar
from weakref import WeakSet

from mainstem.client.contexts import Closing
from mainstem.client.info import Order
from mainstem.client.queue_options import QueueOptions
from mainstem.client.reaper import Reaper
from mainstem.client.starts import Start
from mainstem.client.stem import Groups, Queue, Queues, Subscription, Topics
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import HeadersLike, Key, Value, make_event
from mainstem.client.writer import Appender, LogWriter, check_writer, only_partition
from mainstem.core.event import Event, Position

S = TypeVar("S", bound=Subscription)
Q = TypeVar("Q", bound=Queue)


class BlockingStem(Closing, Generic[S, Q]):
    """A stem whose calls wait in the thread that makes them.

    Arguments become events and options here; what they do to the log is up to each kind of stem.
    """

    _topics: Topics
    _groups: Groups
    _queues: Queues

    def __init__(self) -> None:
        self._reaper = Reaper()
        self._writers: WeakSet[LogWriter] = WeakSet()

    @property
    def topics(self) -> Topics:
        """Create, list, show, alter, delete, trim."""
        return self._topics

    @property
    def groups(self) -> Groups:
        """List, show, seek, delete."""
        return self._groups

    @property
    def queues(self) -> Queues:
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
        return self._publish(topic, make_event(value, key, headers, timestamp_ms), partition)

    def subscribe(
        self,
        *topics: str,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> S:
        """Read topics (names or patterns such as ``orders.*``) as an iterator of events.

        With a group: members share the partitions and go on from the group's cursors; ``start``
        holds where there is no cursor yet. Without: everything, from ``start``, nothing stored.
        Without ``follow`` it ends at what was the tail when it began.
        """
        options = SubscriptionOptions(
            topics=topics,
            group=group,
            start=start,
            follow=follow,
            commit=commit,
            partitions=None if partitions is None else tuple(partitions),
        )
        return self.open_subscription(options)

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
    ) -> Q:
        """Share the events of a topic one by one with the other consumers of a queue.

        The first one makes the queue, and ``start`` holds for it. An event that is not settled in
        ``lock_s`` seconds (30) goes to another consumer; after ``max_deliveries`` failures (5;
        0: never) it becomes a dead letter in ``<topic>.dead``. With order ``key`` an event waits
        until all earlier ones of its key are settled. What is given changes the queue for all.
        Without ``follow`` it ends when there is nothing to be had. Over the network it is a share
        group of that name, and every delivery counts, also one that is given back.
        """
        options = QueueOptions(
            topic=topic,
            name=name,
            start=start,
            max_deliveries=max_deliveries,
            lock_s=lock_s,
            order=order,
            follow=follow,
        )
        return self.open_queue(options)

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> LogWriter:
        """Become the only writer of that name: the one before is fenced, here and over the network.

        The topic must exist. Events are in one order, so it has one partition, or ``partition`` is
        given.
        """
        self.check_open()
        check_writer(name)
        number = only_partition(topic, self._partitions(topic), partition)
        made = LogWriter(self._appender(topic, number, name))
        self._writers.add(made)
        return made

    def close(self) -> None:
        """Finish what is under way and let go of the directory or connection."""
        self.close_now(failed=False)

    @abstractmethod
    def check_open(self) -> None:
        """Raise Closed if it is."""

    @abstractmethod
    def open_subscription(self, options: SubscriptionOptions) -> S:
        """Subscribe; closed with the stem, or when it is abandoned."""

    @abstractmethod
    def open_queue(self, options: QueueOptions) -> Q:
        """Join a queue; left when the stem is closed."""

    @abstractmethod
    def close_now(self, *, failed: bool) -> None:
        """Close; ``failed`` if an error is the reason, or the end of the program."""

    @abstractmethod
    def _publish(self, topic: str, event: Event, partition: int | None) -> Position: ...

    @abstractmethod
    def _partitions(self, topic: str) -> int: ...

    @abstractmethod
    def _appender(self, topic: str, partition: int, name: str) -> Appender: ...

    def _settle_groups(self) -> None:
        """See to it that abandoned members are not taken for live ones."""
        self.check_open()
        self._reaper.reap()

    def _leave(self, error: BaseException | None) -> None:
        self.close_now(failed=error is not None)
