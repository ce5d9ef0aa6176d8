"""Publishing: appending events or record batches to topics, with backpressure."""

from collections.abc import Sequence
from typing import Protocol

from mainstem.broker.definitions import HeadChanges
from mainstem.broker.delays.delays import DelayedEvent
from mainstem.broker.publishing.atomic import PublishedAll, TopicEvents
from mainstem.broker.publishing.batching import Published
from mainstem.broker.publishing.outcome import AppendedBatch, AppendOutcome, AppendOutcomes
from mainstem.broker.publishing.overload import HeldPublish
from mainstem.broker.queues.queues import QueueSettlements
from mainstem.core.event import Event
from mainstem.log.port import WritableBatch

__all__ = [
    "AppendOutcome",
    "AppendOutcomes",
    "AppendedBatch",
    "DelayedEvent",
    "HeadChanges",
    "HeldPublish",
    "Published",
    "PublishedAll",
    "Publishing",
    "QueueSettlements",
    "TopicEvents",
]


class Publishing(Protocol):
    """Appends events; read the offsets only after ``durable``.

    Waiting for ``durable`` may also raise the error of a failed append. Only ``publish`` ever
    blocks.
    """

    def publish(
        self, topic: str, events: Sequence[Event], partition: int | None = None
    ) -> Published:
        """Append events, all or nothing; blocks while a topic with backpressure is full.

        Without ``partition`` the key selects the partition; events without a key go to the
        partitions in turn. Raises Overloaded, EventTooLarge, InvalidEvent or StorageFull; then
        nothing was appended.
        """

    def try_publish(
        self,
        topic: str,
        events: Sequence[Event],
        partition: int | None = None,
        held: HeldPublish | None = None,
        *,
        lazy: bool = False,
    ) -> Published | HeldPublish:
        """Publish without blocking; returns a HeldPublish if backpressure delays the producer.

        The caller then waits for the HeldPublish's ``room``, until its ``until_ms`` at most, and
        retries, passing the HeldPublish as ``held``. ``lazy``: the publisher does not wait for
        durability. The events then survive kill -9 on return, and a power cut a little later.
        """

    def publish_all(
        self,
        entries: Sequence[TopicEvents],
        settled: Sequence[QueueSettlements] = (),
        held: HeldPublish | None = None,
        delayed: Sequence[DelayedEvent] = (),
        defined: HeadChanges | None = None,
    ) -> PublishedAll | HeldPublish:
        """Append events, settle deliveries and change a head's definitions, all or nothing.

        Never blocks. ``entries``: the events for each of several topics. ``settled``: deliveries to
        settle. ``delayed``: events stored in the same append, and published when they are due;
        ``max_backlog`` does not apply to them. ``defined``: new values of the head's definitions
        (``door/definitions.py``), such as how far a connector has read its database.

        If a topic with backpressure is full, nothing is done and a HeldPublish is returned: wait
        for its ``room``, until its ``until_ms`` at most, and retry, passing it as ``held``. Raises
        the errors of ``publish``, ``Queues.settle`` and ``HeadDefinitions.set``, and StaleDelivery;
        then nothing was done.
        """

    def append_batches(
        self,
        topic: str,
        batches: Sequence[tuple[int, WritableBatch]],
        held: HeldPublish | None = None,
        *,
        adds_partition: bool = False,
    ) -> AppendOutcomes:
        """Append producers' record batches, each independently, to partitions given by number.

        Each batch is checked as the topic's settings demand, and appended or refused as if it had
        come alone. Never blocks: if backpressure holds a batch back, that batch and all after it
        are not appended; wait for the ``room`` of the HeldPublish, until its ``until_ms`` at most,
        and retry these batches, passing the HeldPublish as ``held``. ``adds_partition``: adds the
        partition to the batch's transaction, if it is not in it yet (KIP-890). Raises UnknownTopic.
        """
