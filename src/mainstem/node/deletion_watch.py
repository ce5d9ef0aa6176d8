"""When a queue is deleted, removes its definition also from heads that are not running."""

from functools import partial

from mainstem.broker.door import Door
from mainstem.heads import HEADS


def watch_deletions(door: Door) -> None:
    """Make every head that is not running delete its definitions of deleted queues."""
    for head in HEADS:
        if head.forget_queue is not None:
            door.queues.watch_deletions(head.name, partial(head.forget_queue, door))
