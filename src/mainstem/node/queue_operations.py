"""Operations on queues for operators, by the admin port: purge, move."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.heads.context import HeadContext
from mainstem.node.queue_move import MAX_EVENTS, move_events

PURGE, MOVE = "queues/purge", "queues/move"


class PurgeQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settles all events of a queue that wait."""

    topic: str
    queue: str


class Purged(msgspec.Struct, frozen=True):
    """How many they were."""

    purged: int


class MoveEvents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Moves the first events of a queue that wait to another topic, in one append."""

    topic: str
    queue: str
    to: str
    """The other topic."""
    limit: Annotated[int, Meta(ge=1)] = MAX_EVENTS


class Moved(msgspec.Struct, frozen=True):
    """How many were moved; more may wait."""

    moved: int


def offer_queue_operations(context: HeadContext) -> None:
    """Offer them, once the log is open."""

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
