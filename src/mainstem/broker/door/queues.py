"""Queues: consumers that share the events of a topic one by one, each settled once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.broker.queues.description import QueueState
from mainstem.broker.queues.live_queue import Unsettled
from mainstem.broker.queues.queues import DEFAULTS, MAX_BYTES, QueueSettlements, Settled
from mainstem.broker.queues.records import (
    MAX_DELIVERIES,
    MAX_LOCK_MS,
    AcquiredBatches,
    AcquiredRecords,
    Delivery,
    Order,
    Outcome,
    QueueSettings,
    Settlement,
)
from mainstem.core.errors import MainstemError
from mainstem.core.event import Position
from mainstem.log.port import Durable

__all__ = [
    "MAX_DELIVERIES",
    "MAX_LOCK_MS",
    "AcquiredBatches",
    "AcquiredRecords",
    "Delivery",
    "Order",
    "Outcome",
    "QueueSettings",
    "QueueState",
    "Queues",
    "Settled",
    "Settlement",
    "Unsettled",
]


class Queues(Protocol):
    """Hands out deliveries and settles them; none of it blocks.

    A settlement is done, and what was refused of it is read, only once it is durable.
    """

    def create(
        self,
        topic: str,
        name: str,
        settings: QueueSettings = DEFAULTS,
        starts: Mapping[int, int] | None = None,
    ) -> Durable:
        """Create a queue, or give one that is there other settings.

        ``starts``: the offset to begin with in each partition, the earliest where there is none.
        """

    def delete(self, topic: str, name: str) -> Durable:
        """Forget a queue; what was out cannot be settled any more."""

    def seek(self, topic: str, name: str, offsets: Mapping[int, int]) -> Durable:
        """Go on from other offsets, forward or back; what is out there cannot be settled any more.

        Raises OffsetOutOfRange, UnknownPartition; nothing was moved then.
        """

    def purge(self, topic: str, name: str) -> tuple[int, Durable]:
        """Settle everything that is visible and not out; return how many events that were."""

    def settings(self, topic: str, name: str) -> QueueSettings | None:
        """Return how a queue behaves, None if there is no such queue."""

    def created_with(self, topic: str, name: str) -> QueueSettings | None:
        """Return a queue's own settings, None if there is no such queue."""

    def show(self, topic: str, name: str) -> QueueState:
        """Return how a queue stands; raises UnknownQueue."""

    def every(self, name: str | None = None) -> list[QueueState]:
        """Return every queue, or those of one name, by topic and name."""

    def names(self) -> set[str]:
        """Return the names that queues have, on whatever topic."""

    def peek(
        self, topic: str, name: str, limit: int, after: Position | None = None
    ) -> list[Unsettled]:
        """Return the first events that are not settled, or those after one; give none out."""

    def acquire(
        self,
        topic: str,
        name: str,
        owner: str,
        *,
        max_events: int = 1,
        max_bytes: int = MAX_BYTES,
        credit: int | None = None,
        noted: bool = False,
        locked: bool = True,
    ) -> list[Delivery]:
        """Hand events to an owner, none if there are none now; at least one whatever its size.

        ``credit``: how many may be out with this owner at most, these included.
        ``noted``: what may have been out when the last broker ended counts as delivered even if
        this one ends before it is settled.
        ``locked``: they go to another owner if they are not settled in ``lock_ms``; else they stay
        with this one until it settles them or leaves.
        """

    def acquire_batches(
        self,
        topic: str,
        name: str,
        owner: str,
        partitions: Collection[int],
        *,
        max_events: int,
        max_bytes: int = MAX_BYTES,
        whole: bool = False,
        least: bool = True,
        single: bool = False,
    ) -> list[AcquiredBatches]:
        """Hand events of some partitions to an owner as they are stored; see ``acquire``.

        ``whole``: a record batch that is begun is handed out whole, also over ``max_events``.
        ``least``: the first batch is handed out whatever its size; all others are in ``max_bytes``.
        ``single``: only of one partition, the first that has any.
        """

    def settle(
        self, topic: str, name: str, owner: str, settlements: Sequence[Settlement]
    ) -> Settled:
        """Settle deliveries of an owner, in one append; those that are not its own are refused.

        Raises StorageFull with nothing changed.
        """

    def settle_all(
        self, settled: Sequence[QueueSettlements], *, lazy: bool = False
    ) -> list[Settled]:
        """Settle deliveries of several queues and owners in one append; see ``settle``.

        What is said of a queue that is gone is refused. ``lazy``: nobody waits for it, so that it
        survives kill -9 on return, and a power cut a little later.
        """

    def settle_by_partition(
        self, topic: str, name: str, owner: str, settlements: Mapping[int, Sequence[Settlement]]
    ) -> Settled:
        """Settle deliveries of an owner, in one append, in each partition all or none.

        ``refused`` has the partitions of which nothing was settled.
        """

    def undelivered(
        self, topic: str, name: str, lasts: Mapping[int, int]
    ) -> dict[int, MainstemError]:
        """Return the partitions of which an offset was never delivered, or that are not there."""

    def renew(
        self, topic: str, name: str, owner: str, deliveries: Iterable[Settlement]
    ) -> dict[int, MainstemError]:
        """Let an owner keep deliveries for another ``lock_ms`` from now; return what was refused.

        Nothing is written: only partition, offset and lease of the settlements are looked at.
        """

    def leave(self, topic: str, name: str, owner: str, *, failed: bool = False) -> Durable:
        """Take back everything that is out with an owner; ``failed``: it counts as delivered."""

    def watch(
        self, topic: str, name: str, wake: Callback, partitions: Collection[int] | None = None
    ) -> Callback:
        """Call ``wake`` once there may be something to acquire that was not there before.

        Acquire before, or else the ends of the partitions are not known, and once more after, as
        something may have happened in between. Calls come from any thread, perhaps more than one,
        and while the lock is held: ``wake`` leaves a note and calls nothing here. What time brings
        does not wake: see ``wait_ms``. Returns what takes the watch back.
        """

    def wait_ms(self, topic: str, name: str) -> int | None:
        """Return when time will bring something to a queue, None if never."""
