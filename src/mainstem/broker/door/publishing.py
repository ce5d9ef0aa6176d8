"""Publishing: events or record batches into topics, at once or held while a topic is full."""

from collections.abc import Sequence
from typing import Protocol

from mainstem.broker.publishing.atomic import PublishedAll, TopicEvents
from mainstem.broker.publishing.batching import Published
from mainstem.broker.publishing.outcome import AppendedBatch, AppendOutcome
from mainstem.broker.publishing.overload import HeldPublish
from mainstem.broker.queues.queues import QueueSettlements
from mainstem.core.event import Event
from mainstem.log.port import WritableBatch

__all__ = [
    "AppendOutcome",
    "AppendedBatch",
    "HeldPublish",
    "Published",
    "PublishedAll",
    "Publishing",
    "QueueSettlements",
    "TopicEvents",
]


class Publishing(Protocol):
    """Appends events; where they stand is read only once they are durable.

    Whoever waits for ``durable`` gets an error there, too. Only ``publish`` ever waits by itself.
    """

    def publish(
        self, topic: str, events: Sequence[Event], partition: int | None = None
    ) -> Published:
        """Append events, all or nothing; held while the topic is full, if it says so.

        By key, by the partition given, or else in turn. Raises Overloaded, EventTooLarge,
        InvalidEvent, StorageFull; nothing was appended then.
        """

    def try_publish(
        self,
        topic: str,
        events: Sequence[Event],
        partition: int | None = None,
        held: HeldPublish | None = None,
    ) -> Published | HeldPublish:
        """Publish without waiting: if held, wait for ``room`` or ``until_ms`` and try again."""

    def publish_all(
        self,
        entries: Sequence[TopicEvents],
        settled: Sequence[QueueSettlements] = (),
        held: HeldPublish | None = None,
    ) -> PublishedAll | HeldPublish:
        """Append events of several topics and settle deliveries, all or nothing; never waits.

        If one of the topics is full and holds its producers, nothing is done: wait for ``room`` or
        ``until_ms``, and try again with what was returned as ``held``. Raises what ``try_publish``
        and ``queues.settle`` would refuse, also StaleDelivery; nothing was done then.
        """

    def append_batch(
        self,
        topic: str,
        partition: int,
        batch: WritableBatch,
        held: HeldPublish | None = None,
        *,
        joins: bool = False,
    ) -> Published | HeldPublish:
        """Append a record batch as a producer built it, checked as the topic asks; never waits.

        ``joins``: a partition that its transaction has not touched yet is added by that.
        """

    def append_batches(
        self, topic: str, batches: Sequence[tuple[int, WritableBatch]], *, joins: bool = False
    ) -> list[AppendOutcome] | None:
        """Append record batches to partitions, each as ``append_batch`` would, and tell of each.

        None, and nothing is done, unless the topic takes every batch at once and as it is.
        """
