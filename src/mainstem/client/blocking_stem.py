"""The common part of what ``mainstem.open`` and ``mainstem.connect`` return."""

from abc import abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Generic, Literal, TypeVar
from weakref import WeakSet

from mainstem.client.contexts import Closing
from mainstem.client.due_times import DueTime
from mainstem.client.info import Order
from mainstem.client.queue_options import QueueOptions
from mainstem.client.reaper import Reaper
from mainstem.client.start_positions import Start
from mainstem.client.stem import Groups, Queue, Queues, Subscription, Topics
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import HeadersLike, Key, Value, make_event
from mainstem.client.writer import Appender, LogWriter, WriterId, check_writer, only_partition
from mainstem.core.event import Event, Position

S = TypeVar("S", bound=Subscription)
Q = TypeVar("Q", bound=Queue)


class BlockingStem(Closing, Generic[S, Q]):
    """Base class of ``Stem`` implementations.

    It converts arguments to events and options; subclasses publish and read them.
    """

    _topics: Topics
    _groups: Groups
    _queues: Queues

    def __init__(self) -> None:
        self._reaper = Reaper()
        self._writers: WeakSet[LogWriter] = WeakSet()

    @property
    def topics(self) -> Topics:
        """Operations on topics: create, list, show, alter, delete, trim."""
        return self._topics

    @property
    def groups(self) -> Groups:
        """Operations on consumer groups: list, show, seek, delete."""
        return self._groups

    @property
    def queues(self) -> Queues:
        """Operations on queues: list, show, peek, purge, move, delete."""
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
        """Append one event; return its position once it has the durability of its topic."""
        return self._publish(topic, make_event(value, key, headers, timestamp_ms), partition)

    def schedule(
        self,
        topic: str,
        value: Value,
        *,
        delay_s: float | None = None,
        at: datetime | None = None,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Publish one event later: ``delay_s`` seconds from now, or ``at`` a time with a time zone.

        Returns when the event is stored: from then on it survives a power cut, and it is published
        exactly once, when it is due and a program has the log open. It does not hold up other
        events. An unknown topic is created now; if the topic is deleted meanwhile, the event is
        dropped.
        """
        event = make_event(value, key, headers, timestamp_ms)
        self._schedule(topic, event, DueTime(delay_s, at), partition)

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

        With a group, its members share the partitions and continue at the committed offsets;
        ``start`` applies where there are none yet. Offsets of finished events are committed about
        once a second, or with ``commit="manual"`` only by ``Subscription.commit``.

        Without a group, it reads all partitions, or ``partitions``, from ``start`` on, and commits
        nothing. Without ``follow``, the iterator ends at the tails that the topics had when it
        began.
        """
        chosen = None if partitions is None else tuple(partitions)
        return self.open_subscription(
            SubscriptionOptions(topics, group, start, follow, commit, chosen)
        )

    def queue(
        self,
        topic: str,
        *,
        name: str,
        start: Start = "earliest",
        max_deliveries: int | None = None,
        lock_s: float | None = None,
        order: Order | None = None,
        ttl_s: float | None = None,
        max_length: int | None = None,
        max_bytes: int | None = None,
        follow: bool = True,
    ) -> Q:
        """Share the events of a topic one by one with the other consumers of a queue.

        The first call creates the queue at ``start``. An event that is not settled within
        ``lock_s`` seconds (default 30) goes to another consumer. After ``max_deliveries`` failed
        deliveries (default 5; 0: no limit) it becomes a dead letter in ``<topic>.dead``. With
        order ``key``, an event waits until all earlier ones of its key are settled; with order
        ``priority``, events of higher partitions come first.

        Events that were not delivered within ``ttl_s`` seconds of their publishing become dead
        letters, and so do the oldest beyond ``max_length`` waiting events, or ``max_bytes`` of
        values (0: no limit). Settings that are given change the queue for all its consumers.
        Without ``follow``, the iterator ends when no event is available. Over the network a queue
        is a share group of that name, and every delivery counts, even a released one.
        """
        limits = (ttl_s, max_length, max_bytes)
        options = QueueOptions(topic, name, start, max_deliveries, lock_s, order, *limits, follow)
        return self.open_queue(options)

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> LogWriter:
        """Open a writer that fences earlier writers of that name: these can append no more.

        The topic must exist. A writer appends to one partition: give ``partition`` unless the topic
        has only one.
        """
        self.check_open()
        check_writer(name)
        number = only_partition(topic, self._partitions(topic), partition)
        made = LogWriter(self._appender(WriterId(topic, number, name)))
        self._writers.add(made)
        return made

    def close(self) -> None:
        """Finish running operations, and release the directory or connection."""
        self.close_now(failed=False)

    @abstractmethod
    def check_open(self) -> None:
        """Raise Closed if the stem was closed."""

    @abstractmethod
    def open_subscription(self, options: SubscriptionOptions) -> S:
        """Subscribe; closing the stem will close the subscription."""

    @abstractmethod
    def open_queue(self, options: QueueOptions) -> Q:
        """Join a queue as a consumer; closing the stem will close the consumer."""

    @abstractmethod
    def close_now(self, *, failed: bool) -> None:
        """Close; if ``failed`` (an error, or exit), events returned last count as unfinished."""

    @abstractmethod
    def _publish(self, topic: str, event: Event, partition: int | None) -> Position: ...

    @abstractmethod
    def _schedule(self, topic: str, event: Event, due: DueTime, partition: int | None) -> None: ...

    @abstractmethod
    def _partitions(self, topic: str) -> int: ...

    @abstractmethod
    def _appender(self, writer: WriterId) -> Appender: ...

    def _settle_groups(self) -> None:
        """Close subscriptions that were garbage-collected, so that they leave their groups.

        Raises Closed if the stem was closed.
        """
        self.check_open()
        self._reaper.reap()

    def _leave(self, error: BaseException | None) -> None:
        self.close_now(failed=error is not None)
