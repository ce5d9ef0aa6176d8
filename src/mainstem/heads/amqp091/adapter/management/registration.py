"""Registers all operations of the AMQP head with the admin port."""

from typing import TYPE_CHECKING

from mainstem.heads.amqp091.adapter.exchange_operations import ExchangeOperations
from mainstem.heads.amqp091.adapter.management.connection_operations import ConnectionOperations
from mainstem.heads.amqp091.adapter.management.exchange_declarations import DeclarationOperations
from mainstem.heads.amqp091.adapter.management.message_operations import MessageOperations
from mainstem.heads.amqp091.adapter.management.queue_operations import AmqpQueueOperations

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.service import Service


def offer_operations(service: "Service") -> None:
    """Register the operations with the admin port; called when the head starts."""
    for operations in (
        ExchangeOperations,
        DeclarationOperations,
        AmqpQueueOperations,
        MessageOperations,
        ConnectionOperations,
    ):
        service.context.administration.offer_all(operations(service))
