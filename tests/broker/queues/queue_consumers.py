"""Simulated consumers of queues, for tests."""

from collections.abc import Iterator
from itertools import count

from tests.broker.brokers import Clock

from mainstem.broker.broker import Broker
from mainstem.broker.queues.queues import Settled
from mainstem.broker.queues.records import Delivery, Outcome, QueueSettings, Settlement
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog
from mainstem.log.port import Log

LOCK_MS = 1_000


class Desk:
    """A broker with the topic ``orders`` and the queue ``emails`` on it."""

    def __init__(
        self,
        log: Log | None = None,
        clock: Clock | None = None,
        partitions: int = 1,
        ids: Iterator[int] | None = None,
        **settings: object,
    ) -> None:
        self.clock = clock or Clock()
        self.log = log or MemoryLog()
        # After a restart other topics must not get the ids of those that are there.
        self.ids = ids or count(1)
        self.broker = Broker(self.log, self.clock, new_id=lambda: f"a{next(self.ids):031x}")
        self.queues = self.broker.queues
        if not self.broker.topics("orders"):
            self.broker.create_topic("orders", TopicSettings(partitions=partitions))
            chosen = QueueSettings(**{"lock_ms": LOCK_MS, **settings})  # type: ignore[arg-type]
            self.queues.create("orders", "emails", chosen)

    def restarted(self) -> "Desk":
        """Return the same desk after a crash."""
        return Desk(self.log, self.clock, ids=self.ids)

    def publish(self, *values: bytes, key: bytes | None = None, partition: int = 0) -> None:
        """Publish one event per value."""
        self.broker.publish("orders", [Event(value, key) for value in values], partition)

    def acquire(
        self,
        count: int = 1,
        owner: str = "ann",
        *,
        name: str = "emails",
        credit: int | None = None,
        max_bytes: int = 1_000_000,
    ) -> list[Delivery]:
        """Hand events to an owner."""
        return self.queues.acquire(
            "orders", name, owner, max_events=count, max_bytes=max_bytes, credit=credit
        )

    def values(self, count: int = 100, owner: str = "ann", name: str = "emails") -> list[bytes]:
        """Acquire events and return their values only."""
        return [each.event.value or b"" for each in self.acquire(count, owner, name=name)]

    def settle(
        self,
        outcome: Outcome,
        *deliveries: Delivery,
        owner: str = "ann",
        delay_ms: int = 0,
        reason: str = "",
    ) -> Settled:
        """Settle deliveries, and raise what was refused first."""
        settled = self.queues.settle(
            "orders",
            "emails",
            owner,
            [
                Settlement(
                    each.event.partition, each.event.offset, outcome, each.lease, delay_ms, reason
                )
                for each in deliveries
            ],
        )
        for error in settled.refused.values():
            raise error
        return settled

    def ack(self, *deliveries: Delivery, owner: str = "ann") -> Settled:
        """Settle deliveries for good."""
        return self.settle(Outcome.ACK, *deliveries, owner=owner)

    def nack(
        self, *deliveries: Delivery, owner: str = "ann", delay_ms: int = 0, reason: str = ""
    ) -> Settled:
        """Say that deliveries failed."""
        return self.settle(Outcome.NACK, *deliveries, owner=owner, delay_ms=delay_ms, reason=reason)
