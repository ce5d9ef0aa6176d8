"""One connection of a simulated AMQP client."""

from collections.abc import Callable, Sequence

from tests.heads.amqp091.raw_peers import Said, publish
from tests.heads.amqp091.talking import START_OK, connecting
from tests.simulation.amqp_book import CONFIRMED, DEAD, MOVED, MOVING, Published
from tests.simulation.amqp_head import AmqpHead, Message
from tests.simulation.world import Client, Wrong

from mainstem.heads import settlements
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.methods import Bare, Method
from mainstem.heads.amqp091.properties import Properties, encode_properties

PATIENCE_MS = 3_000
BOTH = "both"
"""An exchange that is bound to two queues."""
TOPOLOGY: tuple[Method, ...] = (
    methods.QueueDeclare(
        queue=CONFIRMED,
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD},
    ),
    *(methods.QueueDeclare(queue=name, durable=True) for name in (MOVING, DEAD, MOVED)),
    methods.ExchangeDeclare(exchange=BOTH, type="fanout", durable=True),
    methods.QueueBind(queue=CONFIRMED, exchange=BOTH),
    methods.QueueBind(queue=MOVING, exchange=BOTH),
)
PROPERTIES = [encode_properties(Properties(delivery_mode=mode)) for mode in (1, 2)]


class Refused(Exception):
    """The server has closed the channel, or the connection."""

    def __init__(self, why: methods.ChannelClose | methods.ConnectionClose) -> None:
        super().__init__(why.reply_text)


class AmqpPeer:
    """A connection with one channel."""

    def __init__(
        self, client: Client, head: AmqpHead, topology: Sequence[Method] = TOPOLOGY
    ) -> None:
        self._client = client
        self._topology, self._declared = topology, head.declared
        self.connection = head.connect()
        self.channel = f"{client.name}.{self.connection.number}"
        """A name for the channel, which no other has."""
        self.power_cuts = client.world.power_cuts
        """How often the power had been cut when it connected."""
        self.crashes = client.world.crashes
        self.book, self.timed_book = head.book, head.timed_book
        self.messages: list[Message] = []
        """What was delivered, and nobody has looked at."""
        self.may_refuse = False
        """Whether the client has done what the server refuses."""

    async def open(self) -> None:
        """Log in, open the channel, and declare everything, unless that was done before."""
        tune_ok = methods.ConnectionTuneOk(2047, 131_072, 0)
        self.connection.say(connecting(START_OK, tune_ok, methods.ConnectionOpen()))
        for _ in range(3):
            await self.answer()
        await self.ask(methods.ChannelOpen())
        if self._topology not in self._declared or self._client.rng.random() < 0.2:
            for each in self._topology:
                await self.ask(each)
            self._declared.append(self._topology)

    def say(self, *said: Method | Bare) -> None:
        """Send methods."""
        self.connection.say(b"".join(method_frame(1, each) for each in said))

    async def ask(self, method: Method | Bare) -> Said:
        """Send a method, and return its answer."""
        self.say(method)
        return await self.answer()

    async def get(self, queue: str) -> Message | None:
        """Get a message from a queue; None if it is empty."""
        self.connection.getting[1] = queue
        self.say(methods.BasicGet(queue=queue))
        told = await self.next()
        while isinstance(told, Message) and isinstance(told.carrier, methods.BasicDeliver):
            self.messages.append(told)
            told = await self.next()
        return told if isinstance(told, Message) else None

    def publish(self, exchange: str, key: str, body: bytes, message: Published) -> None:
        """Send a message."""
        self.book.publish(body, message)
        self.send(exchange, key, body, PROPERTIES[message.is_persistent])

    def send(self, exchange: str, key: str, body: bytes, properties: bytes) -> None:
        """Send a message of which the book knows."""
        self.connection.say(publish(key, body, properties, exchange=exchange))

    async def answer(self) -> Said:
        """Return what is said next; messages that come before it are kept."""
        while True:
            told = await self.next()
            if isinstance(told, Message):
                self.messages.append(told)
            else:
                return told

    async def next(self, patience_ms: int = PATIENCE_MS) -> Said | Message:
        """Return what comes next; raises Lost, Refused, Unanswered."""
        _, told = await self.connection.next(patience_ms)
        while isinstance(told, methods.ConnectionBlocked) or told is Bare.CONNECTION_UNBLOCKED:
            self._client.world.deeds["amqp: blocked or unblocked"] += 1
            _, told = await self.connection.next(patience_ms)
        if isinstance(told, methods.ChannelClose | methods.ConnectionClose):
            world = self._client.world
            if not (self.may_refuse or world.deeds["full disk"]):
                raise Wrong(f"{self._client.name} was refused: {told.reply_text}")
            raise Refused(told)
        return told

    def can_settle(self) -> Callable[[], bool]:
        """Return what tells whether the server has settled what it was told after this call.

        To be asked when it has answered something else. It settles a little later, and not at all
        if it is killed in between. A full disk takes no acknowledgements: they are written some
        time later, or the messages come again with their channel.
        """
        world = self._client.world
        full, freed_ms = world.deeds["full disk"], world.freed_ms
        can = not world.is_disk_full and (
            freed_ms is None or world.now_ms > freed_ms + settlements.RETRY_MS
        )
        return lambda: can and (world.deeds["full disk"], world.crashes) == (full, self.crashes)

    async def close(self) -> None:
        """Close as one should, and now and then without waiting for the answer."""
        self.connection.say(method_frame(0, methods.ConnectionClose(200, "", 0, 0)))
        if self._client.rng.random() < 0.5:
            await self.answer()
        self.connection.cut()
