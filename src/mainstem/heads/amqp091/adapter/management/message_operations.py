"""Operations on AMQP messages: publish one to an exchange, get some from a queue."""

import threading
from base64 import b64decode, b64encode
from enum import StrEnum, auto
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Action, Peer
from mainstem.broker.door import Delivery, HeldPublish, Outcome
from mainstem.core.errors import Failure, InvalidSetting
from mainstem.heads.admin_operations import OperationFailed, operation
from mainstem.heads.amqp091.adapter.channel import SEEN_MS, AmqpChannel
from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
from mainstem.heads.amqp091.adapter.management.access import Access, plain, table_of
from mainstem.heads.amqp091.adapter.messages import Content
from mainstem.heads.amqp091.codec import route_of
from mainstem.heads.amqp091.errors import AmqpError
from mainstem.heads.amqp091.fields import read_short_string
from mainstem.heads.amqp091.messages import Publish, Target
from mainstem.heads.amqp091.properties import Properties, decode_properties, encode_properties
from mainstem.heads.queue_consumer import settlement

if TYPE_CHECKING:
    from mainstem.broker.door import Durable
    from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueue, Unseen
    from mainstem.heads.amqp091.adapter.service import Service

MAX_GOT = 1_000
"""Maximum number of messages that one request gets."""
MAX_GOT_BYTES = 16 * 1024 * 1024


class AckMode(StrEnum):
    """What is done with the messages that a request gets, after they were read."""

    ACK = auto()
    """The messages are acknowledged."""
    REJECT = auto()
    """The messages are rejected: dead-lettered if the queue has a dead-letter exchange, else
    dropped.
    """
    REQUEUE = auto()
    """The messages go back to the queue, and are marked as redelivered."""


Octet = Annotated[int, Meta(ge=0, le=255)]


class MessageProperties(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The properties of a message; None for absent ones."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, object] | None = None
    delivery_mode: Octet | None = None
    """2 for a message that must survive a power cut."""
    priority: Octet | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Seconds since 1970."""
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


class PublishMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publish a message to an AMQP exchange."""

    vhost: str
    exchange: str
    """The exchange; empty for the default exchange."""
    routing_key: str
    payload: Annotated[str, Meta(description="The body, in base64.")] = ""
    properties: MessageProperties = MessageProperties()


class Routed(msgspec.Struct, frozen=True):
    """The result of a publish: whether the message was routed to a queue."""

    routed: bool


class GetMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Get messages of an AMQP queue, and ack, reject or requeue them."""

    vhost: str
    queue: str
    count: Annotated[int, Meta(ge=1, le=MAX_GOT)] = 1
    ack_mode: AckMode = AckMode.REQUEUE


class AmqpMessage(msgspec.Struct, frozen=True):
    """A message from a queue."""

    exchange: str
    routing_key: str
    redelivered: bool
    message_count: int
    """How many ready messages the queue had after this one was taken."""
    properties: object
    payload: str
    """The body, in base64."""


class MessageOperations:
    """The admin API's operations on AMQP messages."""

    def __init__(self, service: "Service") -> None:
        self._access, self._service = Access(service), service
        self._context = service.context

    @operation("amqp/publish", "POST amqp/exchanges/{vhost}/{exchange}/publish")
    def publish(self, peer: Peer, asked: PublishMessage) -> Routed:
        """Publish a message to an AMQP exchange."""
        self._access.authorize(peer, Action.WRITE, asked.vhost, asked.exchange)
        message = _message(asked)

        def carry_out(connection: AmqpConversation) -> "Durable | None":
            return self._publish(connection, message)

        durable = self._access.connected(peer, asked.vhost, carry_out)
        if durable is not None:
            durable.wait()
        return Routed(durable is not None)

    def _publish(self, connection: AmqpConversation, message: Publish) -> "Durable | None":
        """Publish a message in its own transaction; return its ``Durable``, None if unroutable."""
        counts, publisher = self._service.counts, connection.publisher
        unroutable, refused = counts.unroutable, counts.refused
        channel = AmqpChannel(connection, 1)
        try:
            routed = publisher.route(channel, 0, message)
            if counts.refused != refused:
                raise OperationFailed(Failure.OVERLOADED, "refused: a queue is full (x-overflow)")
            if routed is None:
                return None if counts.unroutable != unroutable else publisher.last
            found = publisher.commit([routed], ())
            if isinstance(found, HeldPublish):
                raise OperationFailed(Failure.OVERLOADED, "a queue is full: its topic holds back")
            return found
        finally:
            channel.close()

    @operation("amqp/get", "POST amqp/queues/{vhost}/{queue}/get")
    def get(self, peer: Peer, asked: GetMessages) -> list[AmqpMessage]:
        """Get messages of an AMQP queue, and ack, reject or requeue them."""
        owner = f"management-{token_hex(8)}"

        def look(connection: AmqpConversation) -> "tuple[DeclaredQueue, list[Unseen]]":
            self._context.settlements.flush()
            queue = self._service.queues.find(connection, asked.queue)
            queue.serve_consumers(self._context)
            return queue, self._service.queues.unseen(asked.vhost, asked.queue)

        queue, unseen = self._access.connected(peer, asked.vhost, look)
        for each in unseen:
            seen = threading.Event()
            cancel = self._context.broker.watch(*each, seen.set)
            seen.wait(SEEN_MS / 1000)
            cancel()
        door, found = self._context.door(peer), list[AmqpMessage]()
        outcome = Outcome(_OUTCOMES[asked.ack_mode])
        taken = list[Delivery]()
        try:
            size = 0
            while len(taken) < asked.count and size < MAX_GOT_BYTES:
                more = door.queues.acquire(*queue.place, owner, max_events=1, locked=False)
                if not more:
                    break
                taken += more
                size += len(more[0].event.value or b"")
                content = self._service.messages.content_of(more[0].event, queue.name)
                found.append(_described(more[0], content, queue.ready(door)))
            said = [settlement(each, outcome) for each in taken]
            door.queues.settle(*queue.place, owner, said).durable.wait()
        finally:
            # What could not be settled goes back.
            door.queues.leave(*queue.place, owner).wait()
        return found


_OUTCOMES = {
    AckMode.ACK: Outcome.ACK,
    AckMode.REJECT: Outcome.REJECT,
    AckMode.REQUEUE: Outcome.NACK,
}


def _message(asked: PublishMessage) -> Publish:
    """Convert a request to the message that a client would send; raises InvalidSetting."""
    given = msgspec.structs.asdict(asked.properties)
    if asked.properties.headers is not None:
        given["headers"] = table_of(asked.properties.headers)
    try:
        body = b64decode(asked.payload, validate=True)
        properties = encode_properties(Properties(**given))
        route = route_of(asked.exchange, asked.routing_key)
    except (ValueError, AmqpError) as error:
        raise InvalidSetting(f"no client could publish this: {error}") from None
    return Publish(Target(asked.exchange, asked.routing_key, False, route), properties, body)


def _described(delivery: Delivery, content: Content, left: int) -> AmqpMessage:
    route, raw, _ = content
    exchange, at = read_short_string(route, 0, len(route))
    key, _ = read_short_string(route, at, len(route))
    said = decode_properties(raw)
    found = {name: plain(getattr(said, name)) for name in Properties.__struct_fields__}
    return AmqpMessage(
        exchange,
        key,
        delivery.redelivered,
        left,
        {name: value for name, value in found.items() if value is not None},
        b64encode(delivery.event.value or b"").decode(),
    )
