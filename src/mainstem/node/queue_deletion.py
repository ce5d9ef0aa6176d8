"""Deletes a queue, and its definitions in any head, in a directory without a running server."""

from mainstem.broker.door import Door, Durable
from mainstem.heads import HEADS


def delete_queue(door: Door, topic: str, name: str) -> Durable:
    """Delete a queue, including the definitions of the head that declared it."""
    for head in HEADS:
        deleted = None if head.delete_queue is None else head.delete_queue(door, topic, name)
        if deleted is not None:
            return deleted
    return door.queues.delete(topic, name)
