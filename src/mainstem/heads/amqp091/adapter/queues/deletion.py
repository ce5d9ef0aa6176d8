"""Deletes a queue with its definitions while no server runs."""

from secrets import token_bytes

from mainstem.broker.door import Door, Durable
from mainstem.heads.amqp091.adapter.queues.queues import SHARED
from mainstem.heads.amqp091.adapter.topology.names import topic_of
from mainstem.heads.amqp091.adapter.topology.topology import Topology


def delete_queue(door: Door, topic: str, name: str) -> Durable | None:
    """Delete a queue, its bindings, and the topic if the queue owns it.

    None if AMQP has no such queue.
    """
    definitions = door.definitions.open("amqp")
    topology = Topology(definitions, token_bytes)
    for vhost in topology.vhosts():
        for record in topology.queues(vhost):
            if record.topic != topic or topic_of(vhost, record.name) != name:
                continue
            topology.remove_queue(vhost, record.name)
            if topic == name and topic not in definitions.items(SHARED):
                return door.delete_topic(topic)
            return door.queues.delete(topic, name)
    return None
