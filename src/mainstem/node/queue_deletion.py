"""Deletes a queue of a directory on which no server runs, whichever head has declared it."""

from mainstem.broker.door import Door, Durable
from mainstem.heads import HEADS


def delete_queue(door: Door, topic: str, name: str) -> Durable:
    """Delete a queue, with what the head that has declared it has stored."""
    for head in HEADS:
        deleted = None if head.delete_queue is None else head.delete_queue(door, topic, name)
        if deleted is not None:
            return deleted
    return door.queues.delete(topic, name)
