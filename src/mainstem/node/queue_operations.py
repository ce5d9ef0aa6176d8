"""Queue operations of the admin port: purge and move."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.heads.context import HeadContext
from mainstem.node.queue_move import MAX_EVENTS, move_events

PURGE, MOVE = "queues/purge", "queues/move"


class PurgeQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: settle all waiting events of a queue."""

    topic: str
    queue: str


class Purged(msgspec.Struct, frozen=True):
    """Result of a purge: the number of settled events."""

    purged: int


class MoveEvents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: move the first waiting events of a queue to another topic, in one append."""

    topic: str
    queue: str
    to: str
    """The destination topic."""
    limit: Annotated[int, Meta(ge=1)] = MAX_EVENTS


class Moved(msgspec.Struct, frozen=True):
    """Result of a move: the number of moved events; more may be waiting."""

    moved: int


def offer_queue_operations(context: HeadContext) -> None:
    """Register the queue operations at the admin port; called when the log is open."""

    def purge(peer: Peer, asked: PurgeQueue) -> Purged:
        count, durable = context.door(peer).queues.purge(asked.topic, asked.queue)
        durable.wait()
        return Purged(count)

    def move(peer: Peer, asked: MoveEvents) -> Moved:
        door = context.door(peer)
        return Moved(
            move_events(door, asked.topic, asked.queue, asked.to, asked.limit, context.now_ms)
        )

    context.administration.offer(PURGE, PurgeQueue, purge, changes=True)
    context.administration.offer(MOVE, MoveEvents, move, changes=True)
