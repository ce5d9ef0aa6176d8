"""Deletes the AMQP definitions of queues that other protocols delete while the AMQP head is off."""

import logging
from contextlib import suppress
from secrets import token_bytes

from mainstem.broker.door import Door
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.heads.amqp091.adapter.queues.queues import SHARED
from mainstem.heads.amqp091.adapter.topology.names import topic_of
from mainstem.heads.amqp091.adapter.topology.topology import Topology

_logger = logging.getLogger("mainstem.heads.amqp091")


def forget_queue(door: Door, name: str) -> None:
    """Delete the definition, bindings and own topic of an AMQP queue without a broker queue."""
    try:
        _forget(door, name)
    except MainstemError as error:
        # The queue's deletion is already permitted and done.
        _logger.warning("queue %r was deleted, and its definition stays: %s", name, error)


def _forget(door: Door, name: str) -> None:
    definitions = door.definitions.open("amqp")
    topology = Topology(definitions, token_bytes)
    for vhost in topology.vhosts():
        for record in topology.queues(vhost):
            if topic_of(vhost, record.name) != name:
                continue
            with suppress(UnknownTopic):
                if door.queues.settings(record.topic, name) is not None:
                    # The deleted queue was another one, on another topic.
                    continue
            topology.remove_queue(vhost, record.name)
            with suppress(UnknownTopic):
                if record.topic == name and name not in definitions.items(SHARED):
                    door.delete_topic(name)
