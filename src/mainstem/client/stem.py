"""The public API as Protocol classes; ``mainstem.open`` and ``mainstem.connect`` implement it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self, Unpack

from mainstem.client.due_times import DueEvent
from mainstem.client.info import GroupInfo, Lag, QueuedEvent, QueueInfo, TopicInfo
from mainstem.client.queue_options import QueueArguments
from mainstem.client.start_positions import Start
from mainstem.client.subscription import SubscribeArguments
from mainstem.client.values import EventParts, Value, Values
from mainstem.core.event import Event, Position


class Context(Protocol):
    """Base of all objects that can be closed: the end of a ``with`` block closes them."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None: ...


class Topics(Protocol):
    """Operations on topics."""

    def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; settings are those of ``TopicSettings``.

        With ``exist_ok``, an existing topic is returned unchanged; otherwise raises TopicExists.
        """

    def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""

    def show(self, name: str) -> TopicInfo:
        """Return the settings and partitions of one topic."""

    def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings of a topic; its number of partitions can only be increased."""

    def delete(self, name: str) -> None:
        """Delete a topic and all its events."""

    def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` deletes all events.

        This trims all partitions, or only ``partition``.
        """


class Groups(Protocol):
    """Operations on consumer groups."""

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that has members or committed offsets."""

    def show(self, name: str) -> GroupInfo:
        """Return the members and the lag of one group."""

    def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Set the committed offsets of a group without members; return the resulting lag.

        This sets all partitions of the topic, or only ``partition``. With ``dry_run``, nothing is
        changed.
        """

    def delete(self, name: str) -> None:
        """Delete a group and its committed offsets; it must not have members."""


class Queues(Protocol):
    """Operations on queues, such as list and purge; ``Stem.queue`` consumes from a queue."""

    def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, sorted by topic and name."""

    def show(self, topic: str, name: str) -> QueueInfo:
        """Return the settings, consumers and state of one queue."""

    def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first unsettled events, without delivering any.

        ``after``: only events after this position, to read page by page.
        """

    def purge(self, topic: str, name: str) -> int:
        """Settle all events that no consumer has, so that none gets them; return their number."""

    def move(self, topic: str, name: str, to: str, *, limit: int = 1000) -> int:
        """Move the first waiting events, at most ``limit``, to another topic in one append.

        Returns the number of moved events. They keep their order, key, headers and timestamp, but a
        time to live starts again.
        """

    def delete(self, topic: str, name: str) -> None:
        """Delete a queue; its events stay in the topic, unless AMQP created the topic for it."""


class Subscription(Context, Protocol):
    """An iterator of events; any thread may close it.

    An event is finished when the next one is requested, or when the reading thread closes the
    subscription. Auto-commit commits only the offsets of finished events.
    """

    def __iter__(self) -> Iterator[Event]:
        """Return this iterator."""

    def __next__(self) -> Event:
        """Return the next event; StopIteration once closed, or at the end without ``follow``."""

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""

    def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; they are durable on return."""

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) that are being read."""

    @property
    def missed(self) -> int:
        """Number of events that were deleted before this subscription could read them."""

    def close(self) -> None:
        """Leave the group; auto-commit commits the offsets of finished events."""


class Delivery(Protocol):
    """One event handed to one consumer; ``with delivery as event`` acks it, or nacks on an error.

    Settling raises StaleDelivery if the delivery was settled before, or if its lock has expired
    (after ``lock_s`` seconds), when the event may have gone to another consumer.

    With ``wait=False`` it is settled in the background, many times as fast; if the process crashes
    within milliseconds, the event is redelivered. The next ``poll`` or iteration raises an error of
    it, or ``close``, after which all settlements are durable.
    """

    @property
    def event(self) -> Event:
        """The delivered event."""

    @property
    def count(self) -> int:
        """The number of deliveries of this event, including this one."""

    def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the event, which is never delivered again; durable on return if ``wait``."""

    def nack(self, *, delay_s: float = 0.0, reason: str = "", wait: bool = True) -> None:
        """Report a failure: the event is redelivered after the delay, or becomes a dead letter."""

    def release(self, *, wait: bool = True) -> None:
        """Put the event back into its queue.

        Only over the network does this count towards ``max_deliveries``.
        """

    def reject(self, reason: str = "", *, wait: bool = True) -> None:
        """Move the event to the dead letters at once, without a redelivery."""

    def renew(self) -> None:
        """Extend the lock to ``lock_s`` seconds from now; raises Unsupported over the network."""

    def __enter__(self) -> Event: ...
    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None: ...


class Queue(Context, Protocol):
    """An iterator of deliveries; any thread may close it."""

    def __iter__(self) -> Iterator[Delivery]:
        """Return this iterator."""

    def __next__(self) -> Delivery:
        """Return the next delivery; StopIteration once closed, or at the end without ``follow``."""

    def poll(self, timeout: float | None = None) -> Delivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> Sequence[Delivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""

    def ack_many(self, deliveries: Iterable[Delivery]) -> None:
        """Ack deliveries of this queue object in one write; they are durable on return.

        Raises StaleDelivery if the lock of one has expired; the others are still acked. Raises
        InvalidSetting if one belongs to another consumer; then none is acked.
        """

    def close(self) -> None:
        """Close; unsettled events are redelivered.

        Only over the network does this count towards ``max_deliveries``.
        """


class Writer(Context, Protocol):
    """The only writer of its name: opening another one with that name on the topic fences it.

    Each append is a transaction, so that readers see all of it or nothing. A fenced writer raises
    WriterFenced (a ``Fenced``) at its next append, and nothing is appended.
    """

    def append(self, value: Value, **event: Unpack[EventParts]) -> Position:
        """Append one event; return its position once it is durable; raises WriterFenced.

        ``event``: its key, headers and timestamp_ms.
        """

    def append_many(self, events: Values) -> list[Position]:
        """Append events, all or none; return their positions once they are durable."""

    def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""

    def close(self) -> None:
        """Stop appending; another writer with the same name can be opened later."""


class Stem(Context, Protocol):
    """A log, in this process (``mainstem.open``) or on a server (``mainstem.connect``)."""

    @property
    def topics(self) -> Topics:
        """Operations on topics: create, list, show, alter, delete, trim."""

    @property
    def groups(self) -> Groups:
        """Operations on consumer groups: list, show, seek, delete."""

    @property
    def queues(self) -> Queues:
        """Operations on queues: list, show, peek, purge, move, delete."""

    def publish(
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[EventParts]
    ) -> Position:
        """Append one event; return its position once it has the durability of its topic.

        ``event``: its key, headers and timestamp_ms.
        """

    def publish_many(self, topic: str, events: Values, *, partition: int | None = None) -> int:
        """Append many events in large batches; return their number once all are durable."""

    def schedule(
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[DueEvent]
    ) -> None:
        """Publish one event later: ``delay_s`` seconds from now, or ``at`` a time with a time zone.

        ``event`` has these, and the event's key, headers and timestamp_ms. Returns when the event
        is stored: from then on it survives a power cut, and it is published exactly once, when it
        is due and a program has the log open. It does not hold up other events. An unknown topic is
        created now; if the topic is deleted meanwhile, the event is dropped.
        """

    def subscribe(self, *topics: str, **options: Unpack[SubscribeArguments]) -> Subscription:
        """Read topics (names or patterns such as ``orders.*``) as an iterator of events.

        Options: group, start, follow, commit, partitions.

        With a group, its members share the partitions and continue at the committed offsets;
        ``start`` applies where there are none yet. Offsets of finished events are committed about
        once a second, or with ``commit="manual"`` only by ``Subscription.commit``.

        Without a group, it reads all partitions, or ``partitions``, from ``start`` on, and commits
        nothing. Without ``follow``, the iterator ends at the tails that the topics had when it
        began.
        """

    def queue(self, topic: str, *, name: str, **options: Unpack[QueueArguments]) -> Queue:
        """Share the events of a topic one by one with the other consumers of a queue.

        Options: start, max_deliveries, lock_s, order, ttl_s, max_length, max_bytes, follow.

        The first call creates the queue at ``start``. An event that is not settled within
        ``lock_s`` seconds (default 30) goes to another consumer. After ``max_deliveries`` failed
        deliveries (default 5; 0: no limit) it becomes a dead letter in ``<topic>.dead``. With
        order ``key``, an event waits until all earlier ones of its key are settled; with order
        ``priority``, events of higher partitions come first.

        Events that were not delivered within ``ttl_s`` seconds of their publishing become dead
        letters, and so do the oldest beyond ``max_length`` waiting events, or ``max_bytes`` of
        values (0: no limit). Settings that are given change the queue for all its consumers.
        """

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> Writer:
        """Open a writer that fences earlier writers of that name: these can append no more.

        The topic must exist. A writer appends to one partition: give ``partition`` unless the topic
        has only one.
        """

    def close(self) -> None:
        """Finish running operations, and release the directory or connection."""
