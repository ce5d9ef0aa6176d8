"""Queues: consumers that share the events of a topic one by one, each settled once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.broker.queues.dead_letters import DeadEvent, DeadLetterRouter, RoutedEvent
from mainstem.broker.queues.description import QueueState
from mainstem.broker.queues.live_queue import Unsettled
from mainstem.broker.queues.queues import DEFAULTS, MAX_BYTES, QueueSettlements, Settled
from mainstem.broker.queues.records import (
    MAX_DELIVERIES,
    MAX_LOCK_MS,
    AcquiredBatches,
    AcquiredRecords,
    Cause,
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
    "Cause",
    "DeadEvent",
    "DeadLetterRouter",
    "Delivery",
    "Order",
    "Outcome",
    "QueueSettings",
    "QueueState",
    "Queues",
    "RoutedEvent",
    "Settled",
    "Settlement",
    "Unsettled",
]


class Queues(Protocol):
    """Queues: hands out deliveries of events, and settles them; no method blocks.

    A settlement is final, and its refusals may be read, only once its ``durable`` is done.
    """

    def create(
        self,
        topic: str,
        name: str,
        settings: QueueSettings = DEFAULTS,
        starts: Mapping[int, int] | None = None,
    ) -> Durable:
        """Create a queue, or change the settings of an existing one.

        ``starts``: the offset by partition number at which a new queue starts; a partition that is
        absent starts at its first event.
        """

    def delete(self, topic: str, name: str) -> Durable:
        """Delete a queue; its unsettled deliveries can no longer be settled."""

    def seek(self, topic: str, name: str, offsets: Mapping[int, int]) -> Durable:
        """Set a queue's offsets, forward or back; deliveries in flight there become stale.

        Raises OffsetOutOfRange or UnknownPartition; then nothing was moved.
        """

    def route_dead_letters(self, router: DeadLetterRouter) -> None:
        """Register the function that routes dead letters of queues with a ``dead_letter_route``.

        Only heads call this, not their peers. ``router`` is called while the queues' lock is held:
        it must not block, nor call the queues.
        """

    def watch_deletions(self, watcher: str, deleted: Callable[[str], None]) -> None:
        """Call ``deleted`` with the name of each deleted queue, also if its topic was deleted.

        Only heads call this, not their peers; a second call with the same ``watcher`` replaces the
        first. ``deleted`` is called from any thread, without a lock, and must not block.
        """

    def purge(self, topic: str, name: str) -> tuple[int, Durable]:
        """Settle all visible events that are not in flight; return their number."""

    def settings(self, topic: str, name: str) -> QueueSettings | None:
        """Return a queue's effective settings, None if there is no such queue."""

    def created_with(self, topic: str, name: str) -> QueueSettings | None:
        """Return the settings a queue was created with, None if there is no such queue."""

    def show(self, topic: str, name: str) -> QueueState:
        """Return the state of a queue; raises UnknownQueue."""

    def waiting_bytes(self, topic: str, name: str) -> int:
        """Return the total size in bytes of the values of visible events that were never delivered.

        To measure them, each value is read from the log once.
        """

    def every(self, name: str | None = None) -> list[QueueState]:
        """Return every queue, or those of one name, sorted by topic and name."""

    def names(self) -> set[str]:
        """Return the names of all queues, on all topics."""

    def peek(
        self, topic: str, name: str, limit: int, after: Position | None = None
    ) -> list[Unsettled]:
        """Return the first unsettled events, or those after a position, without delivering any."""

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
        """Deliver available events to an owner (a consumer); the first event whatever its size.

        ``credit``: the maximum number of unsettled deliveries of this owner, including these.
        ``noted``: before delivering events that may have been in flight when a process crashed,
        store their delivery counts, so that a second crash does not lose them. ``locked``: if True,
        the queue takes back events that are not settled within ``lock_ms``; if False, this owner
        keeps them until it settles them or leaves.
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
        """Deliver events of some partitions as stored record batches; see ``acquire``.

        ``whole``: deliver each record batch to its end, even beyond ``max_events``.
        ``least``: deliver the first batch whatever its size; ``max_bytes`` limits the others.
        ``single``: deliver from one partition only, the first that has events.
        """

    def settle(
        self, topic: str, name: str, owner: str, settlements: Sequence[Settlement]
    ) -> Settled:
        """Settle deliveries of an owner, in one append; refuses those not in flight to this owner.

        Raises StorageFull; then nothing was settled.
        """

    def settle_all(
        self, settled: Sequence[QueueSettlements], *, lazy: bool = False
    ) -> list[Settled]:
        """Settle deliveries of several queues and owners in one append; see ``settle``.

        Settlements of a deleted queue are refused. ``lazy``: nobody waits for durability: on
        return, settlements survive kill -9, and a power cut only a little later.
        """

    def settle_by_partition(
        self, topic: str, name: str, owner: str, settlements: Mapping[int, Sequence[Settlement]]
    ) -> Settled:
        """Settle an owner's deliveries in one append, all or none in each partition.

        ``refused`` lists the partitions in which nothing was settled.
        """

    def undelivered(
        self, topic: str, name: str, lasts: Mapping[int, int]
    ) -> dict[int, MainstemError]:
        """Return an error for each partition that is unknown or whose offset was not delivered.

        ``lasts``: an offset by partition number.
        """

    def renew(
        self, topic: str, name: str, owner: str, deliveries: Iterable[Settlement]
    ) -> dict[int, MainstemError]:
        """Extend the locks of deliveries to ``lock_ms`` from now; return errors by their index.

        Stores nothing. Uses only partition, offset and lease of each settlement.
        """

    def leave(self, topic: str, name: str, owner: str, *, failed: bool = False) -> Durable:
        """Return all deliveries of an owner to the queue.

        ``failed``: count these deliveries towards ``max_deliveries``.
        """

    def watch(
        self, topic: str, name: str, wake: Callback, partitions: Collection[int] | None = None
    ) -> Callback:
        """Call ``wake`` when there may be new events to acquire; returns a function to cancel.

        Call ``acquire`` before, so that the ends of the partitions are known, and again after, as
        events may have arrived in between. ``wake`` is called from any thread, perhaps repeatedly,
        while the lock is held: it must only set a flag. Expired locks and delays do not call it;
        see ``wait_ms``.
        """

    def wait_ms(self, topic: str, name: str) -> int | None:
        """Return the ms until the next lock or delay in a queue ends, None if there is none."""
