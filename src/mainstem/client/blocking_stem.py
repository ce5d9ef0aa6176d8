"""The common part of what ``mainstem.open`` and ``mainstem.connect`` return."""

from abc import abstractmethod
from typing import Generic, TypeVar, Unpack
from weakref import WeakSet

from mainstem.client.contexts import Closing
from mainstem.client.due_times import DueEvent, DueTime, make_due_event
from mainstem.client.queue_options import QueueArguments, QueueOptions
from mainstem.client.reaper import Reaper
from mainstem.client.stem import Groups, Queue, Queues, Subscription, Topics
from mainstem.client.subscription import SubscribeArguments, SubscriptionOptions
from mainstem.client.values import EventParts, Value, make_event
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
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[EventParts]
    ) -> Position:
        """Append one event; return its position once it has the durability of its topic.

        ``event``: its key, headers and timestamp_ms.
        """
        return self._publish(topic, make_event(value, **event), partition)

    def schedule(
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[DueEvent]
    ) -> None:
        """Publish one event later: ``delay_s`` seconds from now, or ``at`` a time with a time zone.

        ``event`` has these, and the event's key, headers and timestamp_ms. The rules are those of
        ``Stem.schedule``.
        """
        self._schedule(topic, *make_due_event(value, **event), partition)

    def subscribe(self, *topics: str, **options: Unpack[SubscribeArguments]) -> S:
        """Read topics (names or patterns such as ``orders.*``) as an iterator of events.

        ``options``: group, start, follow, commit, partitions, as ``Stem.subscribe`` describes them.
        Without ``follow``, the iterator ends at the tails that the topics had when it began.
        """
        return self.open_subscription(SubscriptionOptions.of(topics, **options))

    def queue(self, topic: str, *, name: str, **options: Unpack[QueueArguments]) -> Q:
        """Share the events of a topic one by one with the other consumers of a queue.

        ``options``: start, max_deliveries, lock_s, order, ttl_s, max_length, max_bytes, follow, as
        ``Stem.queue`` describes them. Without ``follow``, the iterator ends when no event is
        available. Over the network a queue is a share group of that name, and every delivery
        counts, even a released one.
        """
        return self.open_queue(QueueOptions(topic, name, **options))

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
