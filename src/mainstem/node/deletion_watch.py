"""Has the definitions of deleted queues removed, also those of heads that are off."""

from functools import partial

from mainstem.broker.door import Door
from mainstem.heads import HEADS


def watch_deletions(door: Door) -> None:
    """Make every head that is not running delete its definitions of deleted queues."""
    for head in HEADS:
        if head.forget_queue is not None:
            door.queues.watch_deletions(head.name, partial(head.forget_queue, door))
