"""AMQP publishers and consumers in the simulated world, with confirms and in transactions.

They pipeline, settle one by one and many at once, give messages back, reject them, close channels
and connections, ask for what the server refuses, and begin anew whenever their connection is gone.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from tests.simulation.amqp_book import CONFIRMED, DEAD, MOVED, MOVING, Published
from tests.simulation.amqp_head import AmqpHead, Lost, Message
from tests.simulation.amqp_peer import BOTH, PATIENCE_MS, TOPOLOGY, AmqpPeer, Refused
from tests.simulation.world import Client, Unanswered, Wrong

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.methods import Bare, Method

SHORT_MS = 200
"""How long a consumer waits for messages before it looks what else there is to do."""
Work = Callable[[AmqpPeer], Coroutine[object, object, None]]
"""What a client does on an open connection."""


class Sending(Protocol):
    """Sends messages of some kind on a channel."""

    def publish(self, *, is_persistent: bool) -> bytes:
        """Send a message, and return its body."""

    def confirm(self, body: bytes) -> None:
        """Take note that a message was confirmed."""


class Working(Protocol):
    """A program."""

    async def work(self, peer: AmqpPeer) -> None:
        """Do what it does on an open connection."""


async def keep_connecting(
    client: Client, head: AmqpHead, work: Work, topology: Sequence[Method] = TOPOLOGY
) -> None:
    """Connect, declare and work, until nothing is to happen any more."""
    while not client.world.is_calm:
        peer = AmqpPeer(client, head, topology)
        try:
            await peer.open()
            await work(peer)
            await peer.close()
        except (Lost, Refused, Unanswered):
            peer.connection.cut()
        await client.rest(200)


def did(client: Client, deed: str) -> None:
    """Take note of something, for the simulation to show what happens in it."""
    client.world.deeds[f"amqp: {deed}"] += 1


def goes_on(client: Client) -> bool:
    """Tell whether a client stays connected for a while."""
    return not client.world.is_calm and client.rng.random() < 0.9


class Sender:
    """Sends messages, each with a number of its own, to one queue or to both."""

    def __init__(self, client: Client, peer: AmqpPeer) -> None:
        self._rng = client.rng
        self._peer = peer
        self._number = 0

    def publish(self, *, is_persistent: bool = True) -> bytes:
        """Send a message, and return its body."""
        exchange, key = self._rng.choice((("", CONFIRMED), ("", MOVING), (BOTH, "")))
        self._number += 1
        channel = self._peer.channel
        body = f"{channel} {self._number}{'.' * self._rng.randint(0, 40)}".encode()
        queues = (key,) if key else (CONFIRMED, MOVING)
        message = Published(queues, channel, self._number, is_persistent)
        self._peer.publish(exchange, key, body, message)
        return body

    def confirm(self, body: bytes) -> None:
        """Take note that a message was confirmed."""
        self._peer.book.confirm((body,))


class Confirming:
    """Publishes several messages at once, and waits for their confirms."""

    def __init__(
        self, client: Client, sender: Callable[[Client, AmqpPeer], Sending] = Sender
    ) -> None:
        self._client = client
        self._sender = sender

    async def work(self, peer: AmqpPeer) -> None:
        """Publish."""
        sender, last = self._sender(self._client, peer), 0
        await peer.ask(methods.ConfirmSelect())
        while goes_on(self._client):
            waiting: dict[int, tuple[bytes, bool]] = {}
            for _ in range(self._client.rng.randint(1, 5)):
                last += 1
                is_persistent = self._client.rng.random() < 0.8
                waiting[last] = sender.publish(is_persistent=is_persistent), is_persistent
            while waiting:
                await self._hear(peer, sender, waiting)
            await self._client.rest(100)

    async def _hear(
        self, peer: AmqpPeer, sender: Sending, waiting: dict[int, tuple[bytes, bool]]
    ) -> None:
        """Hear a confirm of some messages."""
        told = await peer.next()
        if not isinstance(told, methods.BasicAck | methods.BasicNack):
            raise Wrong(f"{peer.channel} was told {told!r} instead of a confirm")
        tag = told.delivery_tag
        if tag not in waiting:
            raise Wrong(f"{peer.channel} was told of {tag}, and waits for {waiting}")
        for each in [it for it in waiting if it <= tag] if told.multiple else [tag]:
            body, is_persistent = waiting.pop(each)
            is_kept = is_persistent or peer.crashes == self._client.world.crashes
            if isinstance(told, methods.BasicAck) and is_kept:
                sender.confirm(body)
                did(self._client, "confirmed")


class Committing:
    """Publishes in transactions, of which some are rolled back."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def work(self, peer: AmqpPeer) -> None:
        """Publish."""
        rng, sender = self._client.rng, Sender(self._client, peer)
        await peer.ask(Bare.TX_SELECT)
        while goes_on(self._client):
            bodies = tuple(sender.publish() for _ in range(rng.randint(1, 4)))
            if rng.random() < 0.3:
                peer.book.withdraw(bodies)
                if rng.random() < 0.3:
                    # Its end is that of the connection.
                    return
                await peer.ask(Bare.TX_ROLLBACK)
                did(self._client, "rolled back")
                continue
            peer.book.commit(bodies)
            await peer.ask(Bare.TX_COMMIT)
            peer.book.confirm(bodies)
            did(self._client, "committed")
            await self._client.rest(100)


class Held:
    """What a consumer has from its queue and has not settled, by delivery tag."""

    def __init__(self, queue: str, prefetch: int) -> None:
        self.queue = queue
        self.prefetch = prefetch
        """0 is no limit."""
        self.bodies: dict[int, bytes] = {}

    async def consume(self, peer: AmqpPeer) -> None:
        """Begin to consume; consumers have the names of their queues."""
        self.bodies.clear()
        peer.messages.clear()
        await peer.ask(methods.BasicQos(0, self.prefetch))
        await peer.ask(methods.BasicConsume(queue=self.queue, consumer_tag=self.queue))

    async def receive(self, peer: AmqpPeer) -> list[bytes]:
        """Take what comes, for a short time; return it."""
        return [body for body, _ in await self.receive_all(peer)]

    async def receive_all(self, peer: AmqpPeer) -> list[tuple[bytes, bool]]:
        """Like ``receive``; also tell whether each was redelivered."""
        if not peer.messages:
            try:
                told = await peer.next(SHORT_MS)
            except Unanswered:
                return []
            if not isinstance(told, Message):
                raise Wrong(f"{peer.channel} was told {told!r} instead of a message")
            peer.messages.append(told)
        came, peer.messages = peer.messages, []
        found: list[tuple[bytes, bool]] = []
        for carrier, body, _ in came:
            assert isinstance(carrier, methods.BasicDeliver)
            found.append((body, carrier.redelivered))
            if carrier.delivery_tag <= max(self.bodies, default=0):
                raise Wrong(f"{peer.channel} was given the tag {carrier.delivery_tag} again")
            self.bodies[carrier.delivery_tag] = body
        if self.prefetch and len(self.bodies) > self.prefetch:
            raise Wrong(f"{peer.channel} has {len(self.bodies)} messages, not {self.prefetch}")
        return found

    def let_go(self, tag: int, *, multiple: bool) -> dict[int, bytes]:
        """Hold deliveries no more, and return them."""
        tags = [each for each in self.bodies if each <= tag] if multiple else [tag]
        return {each: self.bodies.pop(each) for each in tags}


class Settling:
    """Acknowledges, gives back and rejects, one message or many at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = client.rng

    async def work(self, peer: AmqpPeer) -> None:
        """Consume."""
        self._singly = False
        """Whether it is not known what many at once would be."""
        held = self._held = Held(CONFIRMED, self._rng.choice((0, 1, 2, 5)))
        await held.consume(peer)
        while goes_on(self._client):
            await held.receive(peer)
            await self._client.rest(1_000 if self._rng.random() < 0.05 else 50)
            if held.bodies:
                await self._settle(peer)
            await self._do_something_else(peer)

    async def _settle(self, peer: AmqpPeer) -> None:
        tag = self._rng.choice(list(self._held.bodies))
        multiple = self._rng.random() < 0.5 and not self._singly
        copies = [(CONFIRMED, body) for body in self._held.let_go(tag, multiple=multiple).values()]
        deed = self._rng.choice(("ack", "ack", "ack", "requeue", "requeue", "reject"))
        can_settle = peer.can_settle()
        match deed:
            case "ack":
                peer.book.ack(copies)
                peer.say(methods.BasicAck(tag, multiple))
            case "reject":
                peer.book.reject(copies)
                peer.say(methods.BasicNack(tag, multiple, False))
            case _:
                peer.say(methods.BasicNack(tag, multiple, True))
        did(self._client, f"{deed} multiple" if multiple else deed)
        if deed != "requeue" and self._rng.random() < 0.5:
            await peer.ask(methods.BasicQos(0, 0))
            if can_settle():
                peer.book.settled(copies, peer.power_cuts)

    async def _do_something_else(self, peer: AmqpPeer) -> None:
        chance = self._rng.random()
        if chance < 0.05:
            did(self._client, "recover")
            await peer.ask(methods.BasicRecover(True))
            # Some of these may have come before, some after it; the latter stay out.
            self._held.bodies.clear()
            peer.messages.clear()
            self._singly = True
        elif chance < 0.1:
            did(self._client, "channel closed")
            await peer.ask(methods.ChannelClose(200, "", 0, 0))
            await peer.ask(methods.ChannelOpen())
            await self._held.consume(peer)
            self._singly = False
        elif chance < 0.12:
            did(self._client, "channel refused")
            peer.may_refuse = True
            peer.say(methods.BasicAck(1_000_000))


class Moving:
    """Moves messages to another queue in transactions; it is alone, and sees them in order."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = client.rng
        self._number = 0

    async def work(self, peer: AmqpPeer) -> None:
        """Consume and publish."""
        last: dict[str, int] = {}
        held = Held(MOVING, self._rng.choice((0, 1, 2, 5)))
        await peer.ask(Bare.TX_SELECT)
        await held.consume(peer)
        while goes_on(self._client):
            for body, redelivered in await held.receive_all(peer):
                channel, number = peer.book.place(body)
                # What its own lost connection had comes again once the server knows of the loss.
                if number < last.get(channel, -1) and not redelivered:
                    raise Wrong(f"{body!r} comes to one consumer after number {last[channel]}")
                last[channel] = number
            if held.bodies:
                await self._move(peer, held)

    async def _move(self, peer: AmqpPeer, held: Held) -> None:
        tag = self._rng.choice(list(held.bodies))
        taken = held.let_go(tag, multiple=True)
        moved = tuple(self._publish(peer, body) for body in taken.values())
        peer.say(methods.BasicAck(tag, True))
        if self._rng.random() < 0.2:
            peer.book.withdraw(moved)
            await peer.ask(Bare.TX_ROLLBACK)
            did(self._client, "move rolled back")
            # What was acknowledged is out as before.
            held.bodies = taken | held.bodies
            return
        peer.book.commit(moved)
        await peer.ask(Bare.TX_COMMIT)
        peer.book.confirm(moved)
        peer.book.settled([(MOVING, body) for body in taken.values()], None)
        did(self._client, "moved")

    def _publish(self, peer: AmqpPeer, body: bytes) -> bytes:
        self._number += 1
        moved = b"move %d of %s" % (self._number, body)
        peer.publish("", MOVED, moved, Published((MOVED,), peer.channel, self._number, moves=body))
        return moved


async def drain(client: Client, head: AmqpHead) -> None:
    """Take and acknowledge all that is left in any queue."""
    peer = AmqpPeer(client, head)
    await peer.open()
    for _ in range(2):
        for queue in (CONFIRMED, MOVING, DEAD, MOVED):
            while (message := await peer.get(queue)) is not None:
                peer.book.ack([(queue, message.body)])
                assert isinstance(message.carrier, methods.BasicGetOk)
                peer.say(methods.BasicAck(message.carrier.delivery_tag))
        await client.rest(PATIENCE_MS)
    peer.connection.cut()


CAST: tuple[Callable[[Client], Working], ...] = (
    Confirming,
    Confirming,
    Committing,
    Settling,
    Settling,
    Moving,
)
"""Who lives in a world with AMQP."""
