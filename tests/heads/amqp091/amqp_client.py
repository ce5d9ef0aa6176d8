"""A client of the AMQP head without a socket: a conversation on a broker in memory."""

import asyncio
from collections.abc import Callable

from tests.broker.brokers import LateLog
from tests.heads.amqp091.talking import START_OK, TUNE_OK, publish_frames, said
from tests.heads.contexts import context_on
from tests.heads.outbox import Outbox

from mainstem.broker.broker import Broker
from mainstem.core.errors import MainstemError
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
from mainstem.heads.amqp091.adapter.service import Service
from mainstem.heads.amqp091.codec import BODY, HEADER, METHOD, PROTOCOL_HEADER, method_frame
from mainstem.heads.amqp091.methods import Bare, Method
from mainstem.heads.amqp091.properties import Properties, decode_properties, encode_properties
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.conversation import Later
from mainstem.log.port import Appended, Batches, Bounds, PartitionId, Slice

SETTINGS = AmqpSettings()
NO_PROPERTIES = Properties()
PERSISTENT = Properties(delivery_mode=2)
TURNS = 30
"""So many turns of the loop are enough for whatever is under way."""

Told = Method | Bare | Properties | bytes
"""A method, the properties of a message, or its body."""


class UnseenLog(LateLog):
    """A log whose events, while it is late, cannot be seen before they are durable."""

    def __init__(self) -> None:
        super().__init__()
        self._tails: dict[PartitionId, int] = {}
        self._watches: list[Callable[[], None]] = []

    def settle(self, error: MainstemError | None = None) -> None:
        """Make everything durable."""
        self._tails.clear()
        super().settle(error)
        watches, self._watches = self._watches, []
        for wake in watches:
            wake()

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append, and hide it if this is late."""
        if self.late:
            for partition, _ in batches:
                self._tails.setdefault(partition, super().bounds(partition).end)
        return super().append(batches, together=together, lazy=lazy)

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the bounds."""
        found = super().bounds(partition)
        return found._replace(tail=self._tails.get(partition, found.tail))

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Read what can be seen; a read that begins there must not go past it."""
        hidden = partition in self._tails and offset >= self._tails[partition]
        return super().read(partition, self.bounds(partition).end if hidden else offset, max_bytes)

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Watch the tail."""
        if partition not in self._tails:
            return super().watch(partition, offset, wake)
        self._watches.append(wake)
        return lambda: None


class World:
    """A broker and what its AMQP clients share, inside a running loop; time stands still."""

    def __init__(
        self,
        settings: AmqpSettings = SETTINGS,
        log: UnseenLog | None = None,
        *,
        crashed: bool = False,
    ) -> None:
        """``log``: the log of a world before this one, as after a restart."""
        self.now_ms = 1_000_000
        self.log = UnseenLog() if log is None else log
        self.broker = Broker(self.log, self._now, monotonic_ms=self._now, crashed=crashed)
        self.service = Service(context_on(self.broker, self._now), settings, self._now)

    def _now(self) -> int:
        return self.now_ms

    async def client(self, *channels: int) -> "Client":
        """Connect, and open channels: 1 if none are given."""
        client = Client(self)
        handshake = (START_OK, TUNE_OK, methods.ConnectionOpen())
        client.say_bytes(PROTOCOL_HEADER + b"".join(method_frame(0, each) for each in handshake))
        assert methods.ConnectionOpenOk() in await client.rest(0)
        for channel in channels or (1,):
            assert await client.asks(methods.ChannelOpen(), channel) == [methods.ChannelOpenOk()]
        return client


class Client:
    """One client: says frames, and is told others."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.box = Outbox(world.now_ms)
        self.conversation = AmqpConversation(world.service, self.box)
        self.box.end_conversation = self._end
        self._held: Later | None = None
        self._backlog = b""

    def leave(self) -> None:
        """Go without a word."""
        self.box.end()

    def say(self, method: Method | Bare, channel: int = 1) -> None:
        """Say a method."""
        self.say_bytes(method_frame(channel, method))

    def publish(
        self,
        routing_key: str,
        body: bytes,
        properties: Properties = NO_PROPERTIES,
        channel: int = 1,
        *,
        exchange: str = "",
        mandatory: bool = False,
    ) -> None:
        """Publish a message."""
        frames = publish_frames(channel, routing_key, body, encode_properties(properties))
        publish = methods.BasicPublish(
            exchange=exchange, routing_key=routing_key, mandatory=mandatory
        )
        frames[0] = method_frame(channel, publish)
        self.say_bytes(b"".join(frames))

    def say_bytes(self, data: bytes) -> None:
        assert not self.box.ended, "the conversation is over"
        self._backlog += data
        self._handle()

    def _handle(self) -> None:
        """Let the conversation handle what was said, as far as no answer holds the rest up."""
        if self._held is not None and self._held.answer is not None:
            self._held = None
        while self._backlog and self._held is None:
            view = memoryview(self._backlog)
            size = self.conversation.frame_size(view)
            assert size is not None
            run = self.conversation.handle_run(view) if size < len(view) else None
            answer, size = run or (self.conversation.handle(view[:size]), size)
            self._backlog = self._backlog[size:]
            if isinstance(answer, Later):
                assert answer.holds
                self._held = answer
            else:
                self.box.send(answer)

    def told(self, channel: int = 1) -> list[Told]:
        """Return what has come on a channel since."""
        found, view, self.box.said = list[Told](), self.box.said, b""
        while view:
            size = 8 + int.from_bytes(view[3:7], "big")
            frame, view = view[:size], view[size:]
            if int.from_bytes(frame[1:3], "big") != channel:
                continue
            match frame[0]:
                case kind if kind == METHOD:
                    found.append(said(frame)[1])
                case kind if kind == HEADER:
                    found.append(decode_properties(frame[19:-1]))
                case kind if kind == BODY:
                    found.append(frame[7:-1])
        return found

    async def asks(self, method: Method | Bare, channel: int = 1) -> list[Told]:
        """Say a method, and return what that brings."""
        self.say(method, channel)
        return await self.rest(channel)

    async def rest(self, channel: int = 1) -> list[Told]:
        """Let everything happen that is under way; return what was told."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if not self.box.ended:
                self._handle()
        return self.told(channel)

    def _end(self) -> None:
        self._backlog = b""
        self.conversation.close()
