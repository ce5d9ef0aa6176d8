"""Queue arguments: their names, valid values, and effects.

| argument | value or effect |
|---|---|
| x-message-ttl, x-expires | milliseconds |
| x-max-length, x-max-length-bytes, x-overflow | limits, and what happens at them |
| x-dead-letter-exchange, x-dead-letter-routing-key, x-delivery-limit | dead letters |
| x-max-priority, x-single-active-consumer | order of deliveries |
| x-queue-type | ``classic`` or ``quorum``: stored alike; ``quorum`` has a delivery limit of 20 |
| x-mainstem-topic, x-mainstem-durability | the topic that stores the queue, and its durability |
| all others of RabbitMQ | accepted, stored and shown, without effect |
"""

from collections.abc import Callable
from enum import StrEnum, auto

import msgspec

from mainstem.core.errors import InvalidName
from mainstem.core.names import check_topic
from mainstem.core.topic_settings import Durability
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.equivalence import check_arguments, refused, type_name

MAX_EXPIRY_MS = 315_360_000_000
"""The maximum of ``x-message-ttl`` and ``x-expires``: ten years, as in RabbitMQ."""
MAX_PRIORITY = 255
QUORUM_DELIVERY_LIMIT = 20
"""Default delivery limit of quorum queues since RabbitMQ 4.0."""


class Overflow(StrEnum):
    """What happens when a queue is full (``x-overflow``)."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class QueueType(StrEnum):
    """Values of ``x-queue-type``; both types are stored alike."""

    CLASSIC = auto()
    QUORUM = auto()


class QueueArguments(msgspec.Struct, frozen=True):
    """A queue's parsed arguments; None for each one that was not given."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    """Redeliveries after which a message is dead-lettered or dropped; None for no limit."""
    queue_type: QueueType = QueueType.CLASSIC
    topic: str | None = None
    durability: Durability | None = None


def parse(what: str, arguments: fields.Table) -> QueueArguments:
    """Parse a queue's arguments; raises AmqpError.

    ``what`` names the queue in error texts.
    """
    if "x-dead-letter-exchange" in arguments:
        _check_dead_letter_exchange(what, arguments["x-dead-letter-exchange"])
    found: dict[str, object] = {}
    for name, value in arguments.items():
        if name in _PARSED:
            field, read = _PARSED[name]
            try:
                found[field] = read(value)
            except _Bad as bad:
                raise _invalid(what, name, str(bad)) from None
        elif name.startswith("x-") and name not in HINTS:
            raise _invalid(what, name, "there is no such argument")
    if "dead_letter_routing_key" in found and "dead_letter_exchange" not in found:
        raise _invalid(what, "x-dead-letter-routing-key", "routing_key_but_no_dlx_defined")
    return _with_defaults(msgspec.convert(found, QueueArguments), arguments)


def check_equivalent(what: str, current: fields.Table, received: fields.Table) -> None:
    """Raise AmqpError if arguments differ from those with which the queue was declared."""
    check_arguments(what, _typed(current), _typed(received), _COMPARED)


def _typed(arguments: fields.Table) -> fields.Table:
    """Return the arguments with ``x-queue-type``, which is ``classic`` if it is missing."""
    return {**arguments, "x-queue-type": arguments.get("x-queue-type") or QueueType.CLASSIC.value}


def _with_defaults(found: QueueArguments, arguments: fields.Table) -> QueueArguments:
    limit = found.delivery_limit
    if found.queue_type is QueueType.QUORUM and "x-delivery-limit" not in arguments:
        limit = QUORUM_DELIVERY_LIMIT
    # "-1" is "unlimited" since RabbitMQ 4.0.
    return msgspec.structs.replace(found, delivery_limit=None if limit == -1 else limit)


def _check_dead_letter_exchange(what: str, value: object) -> None:
    if not isinstance(value, str):
        kind, name = type_name(value), "x-dead-letter-exchange"
        raise refused(f"invalid type '{kind}' for arg '{name}' in {what}")


class _Bad(Exception):
    """An argument value is invalid; carries RabbitMQ's error text."""


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Bad(f'"expected integer, got {type_name(value)}"')
    return value


def _number(least: int, most: int | None = None, too_large: str = "") -> Callable[[object], int]:
    """Return a parser of numbers in a range; ``too_large``: RabbitMQ's word for larger ones."""

    def read(value: object) -> int:
        number = _integer(value)
        if number < min(least, 0):
            raise _Bad(f"{{value_negative,{number}}}")
        if number < least:
            raise _Bad(f"{{value_zero,{number}}}")
        if most is not None and number > most:
            raise _Bad(f"{{{too_large},{number}}}")
        return number

    return read


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Bad(f"{{unacceptable_type,{type_name(value)}}}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _Bad(f"{{unacceptable_type,{type_name(value)}}}")
    return value


def _overflow(value: object) -> Overflow:
    try:
        return Overflow(_text(value))
    except ValueError:
        raise _Bad("invalid_overflow") from None


def _queue_type(value: object) -> QueueType:
    text = _text(value)
    # Some management tools send these texts if the user chose no queue type.
    if text in ("", "undefined"):
        return QueueType.CLASSIC
    try:
        return QueueType(text)
    except ValueError:
        raise _Bad(f"\"unsupported queue type '{text}'\"") from None


def _topic(value: object) -> str:
    text = _text(value)
    try:
        check_topic(text)
    except InvalidName as error:
        raise _Bad(str(error)) from None
    return text


def _durability(value: object) -> Durability:
    text = _text(value)
    try:
        return Durability(text)
    except ValueError:
        raise _Bad(f"'{text}' is none of {', '.join(Durability)}") from None


_PARSED: dict[str, tuple[str, Callable[[object], object]]] = {
    "x-expires": ("expires_ms", _number(1, MAX_EXPIRY_MS, "value_too_large")),
    "x-message-ttl": ("message_ttl_ms", _number(0, MAX_EXPIRY_MS, "value_too_large")),
    "x-dead-letter-exchange": ("dead_letter_exchange", _text),
    "x-dead-letter-routing-key": ("dead_letter_routing_key", _text),
    "x-max-length": ("max_length", _number(0)),
    "x-max-length-bytes": ("max_length_bytes", _number(0)),
    "x-max-priority": ("max_priority", _number(0, MAX_PRIORITY, "max_value_exceeded")),
    "x-overflow": ("overflow", _overflow),
    "x-single-active-consumer": ("single_active_consumer", _boolean),
    "x-delivery-limit": ("delivery_limit", _number(-1)),
    "x-queue-type": ("queue_type", _queue_type),
    "x-mainstem-topic": ("topic", _topic),
    "x-mainstem-durability": ("durability", _durability),
}

HINTS = frozenset(
    {
        "x-cancel-on-ha-failover",
        "x-dead-letter-strategy",
        "x-ha-nodes",
        "x-ha-policy",
        "x-initial-cluster-size",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-member-placement-tag",
        "x-queue-lazy",
        "x-queue-leader-locator",
        "x-queue-master-locator",
        "x-queue-mode",
        "x-queue-version",
        "x-quorum-initial-group-size",
        "x-quorum-target-group-size",
    }
)
"""Arguments about clusters, mirrors and files: none changes what a client sees on one node.

An argument that does in RabbitMQ, such as ``x-consumer-timeout``, is refused instead.
"""

_COMPARED = (*_PARSED, *sorted(HINTS))


def _invalid(what: str, name: str, reason: str) -> Exception:
    return refused(f"invalid arg '{name}' for {what}: {reason}")
