"""AMQP clients whose messages expire, die, overtake others or are delayed, in the simulated world.

They publish with confirms, and consume and settle one by one: acknowledge, give back, reject, close
their channel with what they have.
"""

from collections.abc import Callable

from tests.simulation.amqp_clients import SHORT_MS, Confirming, Working, goes_on
from tests.simulation.amqp_head import AmqpHead, Message
from tests.simulation.amqp_peer import PATIENCE_MS, AmqpPeer
from tests.simulation.amqp_timed_book import (
    BRIEF,
    DUE,
    FLEETING,
    GRAVES,
    MOST_PRIORITY,
    ORDERS,
    QUEUES,
    RETRY,
    TTL_MS,
    Copy,
    Posted,
    delivered,
)
from tests.simulation.world import Client, Unanswered, Wrong

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.fields import Table
from mainstem.heads.amqp091.methods import Method
from mainstem.heads.amqp091.properties import Properties, encode_properties

LATER = "later"
"""An exchange that delays messages."""
ARGUMENTS: dict[str, Table] = {
    ORDERS: {"x-max-priority": MOST_PRIORITY, "x-dead-letter-routing-key": RETRY},
    RETRY: {"x-message-ttl": TTL_MS[RETRY], "x-dead-letter-routing-key": ORDERS},
    BRIEF: {"x-message-ttl": TTL_MS[BRIEF], "x-dead-letter-routing-key": GRAVES},
    FLEETING: {"x-message-ttl": TTL_MS[FLEETING]},
}


def _declared(queue: str) -> Method:
    arguments = dict(ARGUMENTS.get(queue, {}))
    if "x-dead-letter-routing-key" in arguments:
        arguments["x-dead-letter-exchange"] = ""
    return methods.QueueDeclare(queue=queue, durable=True, arguments=arguments)


TOPOLOGY: tuple[Method, ...] = (
    *map(_declared, QUEUES),
    methods.ExchangeDeclare(
        exchange=LATER,
        type="x-delayed-message",
        durable=True,
        arguments={"x-delayed-type": "direct"},
    ),
    methods.QueueBind(queue=DUE, exchange=LATER, routing_key=DUE),
)
TAKEN = (ORDERS, BRIEF, GRAVES, FLEETING, DUE)
"""Queues that have consumers."""


class Posting:
    """Sends messages, each with a number of its own, with times to live, priorities, delays."""

    def __init__(self, client: Client, peer: AmqpPeer) -> None:
        self._rng = client.rng
        self._peer = peer
        self._number = 0

    def publish(self, *, is_persistent: bool) -> bytes:
        """Send a message, and return its body."""
        rng, book = self._rng, self._peer.timed_book
        self._number += 1
        body = f"{self._peer.channel} {self._number}{'.' * rng.randint(0, 40)}".encode()
        queue = rng.choice((ORDERS, ORDERS, ORDERS, BRIEF, FLEETING, DUE))
        message = Posted(
            queue,
            self._peer.channel,
            self._number,
            book.now(),
            is_persistent,
            rng.choice((None, *range(MOST_PRIORITY + 2))) if queue == ORDERS else None,
            rng.choice((None, None, 0, rng.randint(1, 1_000))) if queue in TTL_MS else None,
            rng.randint(1, 1_500) if queue == DUE else 0,
        )
        book.publish(body, message)
        own_ms, delay_ms = message.expires_ms, message.delay_ms
        properties = Properties(
            delivery_mode=1 + is_persistent,
            priority=message.priority,
            expiration=None if own_ms is None else str(own_ms),
            headers={"x-delay": delay_ms} if delay_ms else None,
        )
        exchange = LATER if delay_ms else ""
        self._peer.send(exchange, queue, body, encode_properties(properties))
        return body

    def confirm(self, body: bytes) -> None:
        """Take note that a message was confirmed."""
        self._peer.timed_book.confirm(body)


class Taking:
    """Consumes several queues, and settles in any order."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = client.rng

    async def work(self, peer: AmqpPeer) -> None:
        """Consume."""
        self._held: dict[int, Copy] = {}
        """What it has, by delivery tag."""
        self._queues = self._rng.sample(TAKEN, self._rng.randint(2, len(TAKEN)))
        await self._consume(peer)
        while goes_on(self._client):
            await self._receive(peer)
            await self._client.rest(1_500 if self._rng.random() < 0.05 else 50)
            while self._held and self._rng.random() < 0.7:
                await self._settle(peer)
            if self._rng.random() < 0.05:
                await peer.ask(methods.ChannelClose(200, "", 0, 0))
                await peer.ask(methods.ChannelOpen())
                await self._consume(peer)

    async def _consume(self, peer: AmqpPeer) -> None:
        self._held.clear()
        peer.messages.clear()
        await peer.ask(methods.BasicQos(0, self._rng.choice((0, 1, 3, 10))))
        for queue in self._queues:
            await peer.ask(methods.BasicConsume(queue=queue, consumer_tag=queue))

    async def _receive(self, peer: AmqpPeer) -> None:
        """Take what comes, for a short time."""
        if not peer.messages:
            try:
                told = await peer.next(SHORT_MS)
            except Unanswered:
                return
            if not isinstance(told, Message):
                raise Wrong(f"{peer.channel} was told {told!r} instead of a message")
            peer.messages.append(told)
        came, peer.messages = peer.messages, []
        for carrier, body, properties in came:
            assert isinstance(carrier, methods.BasicDeliver)
            # Consumers have the names of their queues.
            self._held[carrier.delivery_tag] = delivered(
                carrier.consumer_tag, body, properties, redelivered=carrier.redelivered
            ).copy

    async def _settle(self, peer: AmqpPeer) -> None:
        book, can_settle = peer.timed_book, peer.can_settle()
        tag = self._rng.choice(list(self._held))
        copy = self._held.pop(tag)
        deed = self._rng.choice(("ack", "requeue", "reject"))
        if deed == "reject" and copy.queue not in (ORDERS, BRIEF):
            deed = "ack"
        match deed:
            case "ack":
                book.ack([copy])
                peer.say(methods.BasicAck(tag))
            case "reject":
                book.reject([copy])
                peer.say(methods.BasicReject(tag, False))
            case _:
                peer.say(methods.BasicReject(tag, True))
        self._client.world.deeds[f"timed: {deed}"] += 1
        if deed != "requeue" and self._rng.random() < 0.5:
            await peer.ask(methods.BasicQos(0, 0))
            if can_settle():
                book.settled([copy], peer.power_cuts, acked=deed == "ack")


async def drain(client: Client, head: AmqpHead, queues: tuple[str, ...]) -> None:
    """Take and acknowledge all that is left in queues, and that comes into them."""
    peer = AmqpPeer(client, head, TOPOLOGY)
    await peer.open()
    quiet = 0
    while quiet < 2:
        quiet += 1
        for queue in queues:
            while (message := await peer.get(queue)) is not None:
                quiet = 0
                carrier = message.carrier
                assert isinstance(carrier, methods.BasicGetOk)
                copy = delivered(queue, message.body, message.properties, redelivered=False).copy
                peer.timed_book.ack([copy])
                peer.say(methods.BasicAck(carrier.delivery_tag))
                await peer.ask(methods.BasicQos(0, 0))
                peer.timed_book.settled([copy], peer.power_cuts, acked=True)
        await client.rest(PATIENCE_MS)
    peer.connection.cut()


CAST: tuple[Callable[[Client], Working], ...] = (
    lambda client: Confirming(client, Posting),
    lambda client: Confirming(client, Posting),
    Taking,
    Taking,
    Taking,
)
"""Who lives in a world with such messages."""
