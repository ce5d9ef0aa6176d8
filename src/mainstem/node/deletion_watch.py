"""When a queue is deleted, removes what heads that are not running have stored about it."""

from functools import partial

from mainstem.broker.door import Door
from mainstem.heads import HEADS


def watch_deletions(door: Door) -> None:
    """Register callbacks that delete heads' definitions of a deleted queue, if the head is off."""
    for head in HEADS:
        if head.forget_queue is not None:
            door.queues.watch_deletions(head.name, partial(head.forget_queue, door))
