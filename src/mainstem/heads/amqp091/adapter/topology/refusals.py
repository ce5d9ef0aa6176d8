"""Checks of declarations; they raise AmqpError with RabbitMQ's texts."""

from mainstem.heads.amqp091.adapter.topology import equivalence
from mainstem.heads.amqp091.adapter.topology.declared import (
    ALTERNATE,
    DEFAULT_EXCHANGE,
    DELAYED_TYPE,
    Exchange,
    ExchangeType,
    Queue,
)
from mainstem.heads.amqp091.adapter.topology.equivalence import named, refused, type_name
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode

RESERVED = "amq."


def stripped(name: str) -> str:
    """Return a name without line breaks, which RabbitMQ removes from names, too."""
    return name.replace("\n", "").replace("\r", "")


def exchange_type(text: str) -> ExchangeType:
    """Return the exchange type of this name; raises AmqpError."""
    try:
        return ExchangeType(text)
    except ValueError:
        raise refused(f"unknown exchange type '{text}'") from None


def check_not_default(name: str) -> None:
    """Raise AmqpError for the default exchange, which cannot be changed."""
    if name == DEFAULT_EXCHANGE:
        text = "operation not permitted on the default exchange"
        raise refused(text, ReplyCode.ACCESS_REFUSED)


def check_not_reserved(kind: str, name: str) -> None:
    """Raise AmqpError for a name with the reserved prefix ``amq.``."""
    if name.startswith(RESERVED):
        text = f"{kind} name '{name}' contains reserved prefix 'amq.*'"
        raise refused(text, ReplyCode.ACCESS_REFUSED)


def check_exchange_arguments(exchange: Exchange) -> None:
    """Raise AmqpError if an exchange's arguments are invalid."""
    if not isinstance(exchange.arguments.get(ALTERNATE, ""), str):
        kind = type_name(exchange.arguments[ALTERNATE])
        raise refused(f"invalid type '{kind}' for arg '{ALTERNATE}' in {exchange}")
    if exchange.type is not ExchangeType.DELAYED:
        return
    delayed = exchange.arguments.get(DELAYED_TYPE)
    if delayed not in list(ExchangeType):
        raise refused(f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
    if delayed == ExchangeType.DELAYED:
        raise refused(f"Invalid argument, '{delayed}' can't be used for '{DELAYED_TYPE}'")


def check_exchange_equivalent(current: Exchange, declared: Exchange) -> None:
    """Raise AmqpError if the existing exchange has other properties than the declared one."""
    what = str(current)
    equivalence.check_property(what, "type", current.type, declared.type)
    equivalence.check_property(what, "durable", current.durable, declared.durable)
    equivalence.check_property(what, "auto_delete", current.auto_delete, declared.auto_delete)
    equivalence.check_property(what, "internal", current.internal, declared.internal)
    compared = [ALTERNATE]
    if current.type is ExchangeType.DELAYED:
        compared.append(DELAYED_TYPE)
    equivalence.check_arguments(what, current.arguments, declared.arguments, compared)


def check_quorum(queue: Queue, *, is_named: bool) -> None:
    """Raise AmqpError for a quorum queue that is exclusive, not durable, or not named."""
    if not is_named:
        raise refused("Cannot declare a server-named queue for type rabbit_quorum_queue")
    if queue.exclusive is not None:
        raise refused(f"invalid property 'exclusive-owner' for {queue}")
    if not queue.durable:
        raise refused(f"invalid property 'non-durable' for {queue}")


def check_access(queue: Queue, connection: str) -> None:
    """Raise AmqpError if the queue is exclusive to a connection other than this one."""
    if queue.exclusive not in (None, connection):
        raise locked(queue)


def locked(queue: Queue) -> AmqpError:
    """Return the AmqpError (RESOURCE_LOCKED) for a queue exclusive to another connection."""
    return refused(
        f"cannot obtain exclusive access to locked {queue}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original "
        "declaration.",
        ReplyCode.RESOURCE_LOCKED,
    )


def not_found(kind: str, name: str, vhost: str) -> AmqpError:
    """Return the AmqpError (NOT_FOUND) for an exchange or queue that does not exist."""
    return refused(f"no {named(kind, name, vhost)}", ReplyCode.NOT_FOUND)
