"""Declares topologies on an in-memory broker, for the tests of exchanges and queues."""

from collections.abc import Callable

import pytest
from tests.broker.brokers import new_broker

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind
from mainstem.heads.amqp091.adapter.topology.topology import Topology
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import QueueDeclare
from mainstem.log.port import Log

NONE: fields.Table = {}


class Random:
    """Bytes that count up."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")


def new_topology(log: Log | None = None) -> Topology:
    """Open a topology; on a log that is there already it finds all that is durable."""
    return Topology(new_broker(log).definitions.open("amqp091"), Random())


def declare_queue(
    topology: Topology,
    name: str,
    vhost: str = "/",
    arguments: fields.Table = NONE,
    *,
    connection: str = "mine",
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
) -> str:
    """Declare a queue, and add it if it is new."""
    asked = QueueDeclare(
        queue=name,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments=arguments,
    )
    decided = topology.decide_queue(vhost, connection, asked)
    if decided.is_new:
        topology.add_queue(decided.queue).wait(0)
    return decided.queue.name


def refusal(call: Callable[[], object], code: ReplyCode = ReplyCode.PRECONDITION_FAILED) -> str:
    """Return the text that something is refused with."""
    with pytest.raises(AmqpError) as caught:
        call()
    assert caught.value.code is code
    return caught.value.detail


def queue_binding(
    queue: str, exchange: str, key: str = "", arguments: fields.Table = NONE, *, vhost: str = "/"
) -> Binding:
    """Return a binding of a queue to an exchange."""
    return Binding(vhost, exchange, DestinationKind.QUEUE, queue, key, arguments)


def exchange_binding(
    destination: str, source: str, key: str = "", arguments: fields.Table = NONE
) -> Binding:
    """Return a binding of an exchange to another one."""
    return Binding("/", source, DestinationKind.EXCHANGE, destination, key, arguments)
