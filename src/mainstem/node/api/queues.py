"""Operations on queues: list, show, create, alter, delete, peek, purge, move."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.broker.door import QueueSettings, QueueState, Unsettled
from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Position
from mainstem.heads.admin_operations import NoArguments, operation
from mainstem.node.api.door_operations import DoorOperations
from mainstem.node.api.positions import SENTENCE, Place, numbers_of, offset_at
from mainstem.node.queue_move import MAX_EVENTS, move_events
from mainstem.node.queue_peek import PeekedEvent, peeked

PURGE, MOVE = "queues/purge", "queues/move"
MAX_PEEKED = 1_000
Limit = Annotated[int, Meta(ge=1, le=MAX_PEEKED, description="Maximum number of events.")]
After = Annotated[
    str,
    Meta(
        description="Only events after this partition and offset, as 0:17.",
        pattern=r"^([0-9]{1,10}:[0-9]{1,19})?$",
    ),
]


class NameQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a queue of a topic."""

    topic: str
    queue: str


class PutQueue(NameQueue, frozen=True):
    """Create a queue, or change settings of an existing one."""

    settings: Annotated[
        dict[str, object],
        Meta(description="Settings by name; the others keep their values, or have the defaults."),
    ] = {}
    start: Annotated[Place, Meta(description=f"Where a new queue starts: {SENTENCE}")] = "earliest"


class SeekQueue(NameQueue, frozen=True):
    """Set the position of a queue; its unsettled deliveries can no longer be settled."""

    to: Annotated[Place, Meta(description=SENTENCE)]
    partition: Annotated[int | None, Meta(description="One partition; otherwise all.")] = None


class PeekQueue(NameQueue, frozen=True):
    """Show the first unsettled events of a queue, without delivering them."""

    limit: Limit = 10
    after: After = ""


class PurgeQueue(NameQueue, frozen=True):
    """Settle all waiting events of a queue."""


class Purged(msgspec.Struct, frozen=True):
    """Result of a purge: the number of settled events."""

    purged: int


class MoveEvents(NameQueue, frozen=True):
    """Move the first waiting events of a queue to another topic, in one append."""

    to: Annotated[str, Meta(description="The destination topic.")]
    limit: Annotated[int, Meta(ge=1, description="Maximum number of events.")] = MAX_EVENTS


class Moved(msgspec.Struct, frozen=True):
    """Result of a move: the number of moved events; more may be waiting."""

    moved: int


class QueueOperations(DoorOperations):
    """Operations on queues."""

    @operation("queues/list", "GET queues")
    def every(self, peer: Peer, _: NoArguments) -> list[QueueState]:
        """List queues and share groups with their state."""
        return list(self._door(peer).queues.every())

    @operation("queues/show", "GET queues/{topic}/{queue}")
    def show(self, peer: Peer, asked: NameQueue) -> QueueState:
        """Show the settings and the state of a queue."""
        return self._door(peer).queues.show(asked.topic, asked.queue)

    @operation("queues/put", "PUT queues/{topic}/{queue}")
    def put(self, peer: Peer, asked: PutQueue) -> QueueState:
        """Create a queue, or change settings of an existing one."""
        door = self._door(peer)
        was = door.queues.created_with(asked.topic, asked.queue)
        settings = _altered(was or QueueSettings(), asked.settings)
        starts = {}
        if was is None:
            numbers = numbers_of(door, asked.topic, None)
            starts = {each: offset_at(door, asked.topic, each, asked.start) for each in numbers}
        if settings != was:
            door.queues.create(asked.topic, asked.queue, settings, starts).wait()
        return door.queues.show(asked.topic, asked.queue)

    @operation("queues/delete", "DELETE queues/{topic}/{queue}")
    def delete(self, peer: Peer, asked: NameQueue) -> None:
        """Delete a queue; its events stay in the topic."""
        self._door(peer).queues.delete(asked.topic, asked.queue).wait()

    @operation("queues/peek", "GET queues/{topic}/{queue}/events")
    def peek(self, peer: Peer, asked: PeekQueue) -> list[PeekedEvent]:
        """Show the first unsettled events of a queue, without delivering them."""
        door = self._door(peer)
        partition, _, offset = asked.after.partition(":")
        after = Position(int(partition), int(offset)) if asked.after else None
        found: list[Unsettled] = door.queues.peek(asked.topic, asked.queue, asked.limit, after)
        return [peeked(each.event, each.deliveries, each.owner) for each in found]

    @operation("queues/seek", "POST queues/{topic}/{queue}/seek")
    def seek(self, peer: Peer, asked: SeekQueue) -> QueueState:
        """Set the position of a queue; its unsettled deliveries can no longer be settled."""
        door = self._door(peer)
        numbers = numbers_of(door, asked.topic, asked.partition)
        offsets = {each: offset_at(door, asked.topic, each, asked.to) for each in numbers}
        door.queues.seek(asked.topic, asked.queue, offsets).wait()
        return door.queues.show(asked.topic, asked.queue)

    @operation(PURGE, "POST queues/{topic}/{queue}/purge")
    def purge(self, peer: Peer, asked: PurgeQueue) -> Purged:
        """Settle all waiting events of a queue."""
        count, durable = self._door(peer).queues.purge(asked.topic, asked.queue)
        durable.wait()
        return Purged(count)

    @operation(MOVE, "POST queues/{topic}/{queue}/move")
    def move(self, peer: Peer, asked: MoveEvents) -> Moved:
        """Move the first waiting events of a queue to another topic, in one append."""
        door, now_ms = self._door(peer), self._context.now_ms
        return Moved(move_events(door, asked.topic, asked.queue, asked.to, asked.limit, now_ms))


def _altered(was: QueueSettings, changes: dict[str, object]) -> QueueSettings:
    known = QueueSettings.__struct_fields__
    if unknown := sorted(set(changes) - set(known)):
        raise InvalidSetting(f"no setting {unknown[0]!r:.100}; there are {', '.join(known)}")
    merged = {name: getattr(was, name) for name in known} | changes
    try:
        return msgspec.convert(merged, QueueSettings)
    except msgspec.ValidationError as error:
        raise InvalidSetting(str(error)) from None
