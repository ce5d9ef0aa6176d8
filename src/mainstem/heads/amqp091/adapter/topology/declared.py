"""Exchanges, queues and bindings: what is declared, and how it is stored.

How this works: durable exchanges, queues and bindings are stored in the broker's definitions, in
which each has a kind (``exchange``, ``queue`` or ``binding``), a key and a value. The value is JSON
with a format version; arguments are stored as the bytes of an AMQP table, since JSON has too few
types. The key is a JSON array of names, or a hash if that is too long.
"""

from collections.abc import Mapping
from enum import StrEnum, auto
from hashlib import blake2b
from typing import ClassVar

import msgspec

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology import queue_arguments
from mainstem.heads.amqp091.adapter.topology.equivalence import named
from mainstem.heads.amqp091.adapter.topology.queue_arguments import QueueArguments

NO_ARGUMENTS: fields.Table = {}
DEFAULT_EXCHANGE = ""
ALTERNATE = "alternate-exchange"
DELAYED_TYPE = "x-delayed-type"
_MAX_KEY_LENGTH = 500


class ExchangeType(StrEnum):
    """How an exchange matches messages with its bindings."""

    DIRECT = auto()
    FANOUT = auto()
    TOPIC = auto()
    HEADERS = auto()
    DELAYED = "x-delayed-message"
    """An exchange of the type in its argument ``x-delayed-type`` that can delay messages."""


class Exchange(msgspec.Struct, frozen=True):
    """The definition of an exchange."""

    kind: ClassVar[str] = "exchange"
    vhost: str
    name: str
    type: ExchangeType
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: fields.Table = NO_ARGUMENTS

    @property
    def matching(self) -> ExchangeType:
        """The type by which bindings are matched; of a delayed exchange its ``x-delayed-type``."""
        if self.type is ExchangeType.DELAYED:
            return ExchangeType(str(self.arguments[DELAYED_TYPE]))
        return self.type

    @property
    def alternate(self) -> str | None:
        """Name of the alternate exchange, which gets the messages that match no binding."""
        found = self.arguments.get(ALTERNATE)
        return found if isinstance(found, str) else None

    @property
    def key(self) -> str:
        """The key under which the exchange is stored."""
        return _key(self.vhost, self.name)

    @property
    def stored(self) -> bytes:
        """The definition as it is stored, encoded."""
        return _encode(
            _StoredExchange(
                self.vhost,
                self.name,
                self.type,
                self.auto_delete,
                self.internal,
                fields.table(self.arguments),
            )
        )

    def __str__(self) -> str:
        return named(self.kind, self.name, self.vhost)


class Queue(msgspec.Struct, frozen=True):
    """The definition of a queue."""

    kind: ClassVar[str] = "queue"
    vhost: str
    name: str
    topic: str
    """The topic that stores the queue's messages."""
    durable: bool = True
    exclusive: str | None = None
    """Id of the only connection that may use the queue; the queue is deleted when it ends."""
    auto_delete: bool = False
    arguments: fields.Table = NO_ARGUMENTS
    settings: QueueArguments = QueueArguments()
    """The queue's arguments, parsed."""

    @property
    def priorities(self) -> int:
        """The number of priorities, which is the number of partitions; 1 without priorities."""
        return 1 + (self.settings.max_priority or 0)

    @property
    def key(self) -> str:
        """The key under which the queue is stored."""
        return _key(self.vhost, self.name)

    @property
    def stored(self) -> bytes:
        """The definition as it is stored, encoded."""
        arguments = fields.table(self.arguments)
        return _encode(_StoredQueue(self.vhost, self.name, self.topic, self.auto_delete, arguments))

    def __str__(self) -> str:
        return named(self.kind, self.name, self.vhost)


class DestinationKind(StrEnum):
    """What the destination of a binding is: a queue or an exchange."""

    QUEUE = auto()
    EXCHANGE = auto()


class Binding(msgspec.Struct, frozen=True):
    """The definition of a binding: from an exchange to a queue or to another exchange."""

    kind: ClassVar[str] = "binding"
    vhost: str
    source: str
    destination_kind: DestinationKind
    destination: str
    routing_key: str = ""
    arguments: fields.Table = NO_ARGUMENTS
    durable: bool = False
    """Whether the binding is stored, which needs a durable source and a durable destination."""

    @property
    def identity(self) -> "Identity":
        """The fields that distinguish this binding from others in its virtual host."""
        ordered = dict(sorted(self.arguments.items()))
        written = fields.table(ordered) if ordered else b""
        return (self.source, self.destination_kind, self.destination, self.routing_key, written)

    @property
    def properties_key(self) -> str:
        """The binding's id in RabbitMQ's management API, unique for one source and destination."""
        key = self.routing_key or "~"
        if not self.arguments:
            return key
        return f"{key}~{blake2b(self.identity[4], digest_size=12).hexdigest()}"

    @property
    def key(self) -> str:
        """The key under which the binding is stored."""
        *names, arguments = self.identity
        return _key(self.vhost, *names, arguments.hex())

    @property
    def stored(self) -> bytes:
        """The definition as it is stored, encoded."""
        return _encode(
            _StoredBinding(
                self.vhost,
                self.source,
                self.destination_kind,
                self.destination,
                self.routing_key,
                fields.table(self.arguments),
            )
        )


Identity = tuple[str, DestinationKind, str, str, bytes]
Declared = Exchange | Queue | Binding


class _StoredExchange(msgspec.Struct, tag_field="kind", tag="exchange/1"):
    vhost: str
    name: str
    type: ExchangeType
    auto_delete: bool
    internal: bool
    arguments: bytes


class _StoredQueue(msgspec.Struct, tag_field="kind", tag="queue/1"):
    vhost: str
    name: str
    topic: str
    auto_delete: bool
    arguments: bytes


class _StoredBinding(msgspec.Struct, tag_field="kind", tag="binding/1"):
    vhost: str
    source: str
    destination_kind: DestinationKind
    destination: str
    routing_key: str
    arguments: bytes


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_StoredExchange | _StoredQueue | _StoredBinding).decode


def load(value: bytes) -> Declared:
    """Decode a stored definition."""
    stored = _decode(value)
    arguments, _ = fields.read_table(stored.arguments, 0, len(stored.arguments))
    match stored:
        case _StoredExchange():
            return Exchange(
                stored.vhost,
                stored.name,
                stored.type,
                auto_delete=stored.auto_delete,
                internal=stored.internal,
                arguments=arguments,
            )
        case _StoredQueue():
            return Queue(
                stored.vhost,
                stored.name,
                stored.topic,
                auto_delete=stored.auto_delete,
                arguments=arguments,
                settings=queue_arguments.parse(
                    named(Queue.kind, stored.name, stored.vhost), arguments
                ),
            )
    return Binding(
        stored.vhost,
        stored.source,
        stored.destination_kind,
        stored.destination,
        stored.routing_key,
        arguments,
        durable=True,
    )


def predeclared(vhost: str) -> Mapping[str, Exchange]:
    """Return the exchanges that exist in every virtual host without declaration (``amq.*``)."""
    return {name: Exchange(vhost, name, kind) for name, kind in _PREDECLARED.items()}


_PREDECLARED = {
    DEFAULT_EXCHANGE: ExchangeType.DIRECT,
    "amq.direct": ExchangeType.DIRECT,
    "amq.fanout": ExchangeType.FANOUT,
    "amq.headers": ExchangeType.HEADERS,
    "amq.match": ExchangeType.HEADERS,
    "amq.topic": ExchangeType.TOPIC,
}


def _key(*names: str) -> str:
    text = _encode(names).decode()
    if len(text) <= _MAX_KEY_LENGTH:
        return text
    return blake2b(text.encode(), digest_size=32).hexdigest()
