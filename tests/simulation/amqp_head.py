"""The AMQP head in the simulated world: the real one, over a network that delays and cuts.

How this works: what a client sends arrives in order, in pieces cut anywhere; what the head sends is
put together to messages, shown to the book, and on its way to the client. A connection that is cut
loses what is on its way to the server, and may lose what is on its way to the client; the server
notices later. A client that reads slowly makes the head's outbox full.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

from tests.heads.amqp091.raw_peers import Said, read_frame
from tests.heads.contexts import context_on
from tests.simulation.amqp_book import AmqpBook
from tests.simulation.amqp_timed_book import QUEUES, AmqpTimedBook, delivered
from tests.simulation.fake_loop import Calls, Loop
from tests.simulation.world import Signal, Unanswered, World

from mainstem.broker.broker import Broker
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
from mainstem.heads.amqp091.adapter.service import Service
from mainstem.heads.amqp091.codec import HEAD
from mainstem.heads.amqp091.methods import Method
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.conversation import Answer, Later

CUTS = 0.01
"""How likely it is that a connection is cut, each time that something is sent on it."""
FULL_BYTES = 600
"""So much on its way to a client, and unread by it, makes an outbox full."""
PIECE_BYTES = 1_000
"""The head handles more than that in runs whose size depends on the machine's speed."""
Carrier = methods.BasicDeliver | methods.BasicGetOk | methods.BasicReturn


class Message(NamedTuple):
    """A message as a client receives it, with its parts put together."""

    carrier: Carrier
    body: bytes
    properties: bytes
    """As encoded."""


Told = tuple[int, Said | Message]
"""A channel, and what was said on it."""


class Lost(Exception):
    """The connection is gone."""


class AmqpHead:
    """The head, which begins anew after a crash."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.book = AmqpBook(world)
        self.timed_book = AmqpTimedBook(world)
        self.declared: list[Sequence[Method]] = []
        """What is known to be declared, for good."""
        self.loop = Loop(world)
        self._lives = 0
        self._connections: list[Connection] = []
        self._count = 0
        world.after_crash.append(self._serve)
        self._serve(world.broker)

    def _serve(self, broker: Broker) -> None:
        self._lives += 1
        self.loop.is_dead = True
        for each in self._connections:
            each.server_died()
        self._connections.clear()
        if self._lives > 1:
            self.book.after_crash()
            self.timed_book.after_crash()
        self.loop = loop = Loop(self.world)
        with patch.object(asyncio, "get_running_loop", lambda: loop):
            context = context_on(
                broker, self.world.time_of_day_ms, run_id=f"{self.world.rng.random()}"
            )
            self._service = Service(context, AmqpSettings(), lambda: self.world.now_ms)

    def connect(self) -> "Connection":
        """Open a connection to the server that is there."""
        self._count += 1
        connection = Connection(self, self._service, self._count)
        self._connections.append(connection)
        return connection


class Connection:
    """Both ends of a connection; for the head it is the ``Outbox``."""

    def __init__(self, head: AmqpHead, service: Service, number: int) -> None:
        self.number = number
        """Of all connections."""
        self.peer = "127.0.0.1:1"
        self.is_tls = False
        self.getting: dict[int, str] = {}
        """From which queue a channel gets a message."""
        self._head, self._world, self._loop = head, head.world, head.loop
        self._is_cut = self._is_over = False
        """Whether the client's end is closed, and the server's."""
        self._loses = False
        """Whether what was on its way to the server when the connection was cut is lost."""
        self._backlog = b""
        self._holds: Later | None = None
        self._assembler = Assembler()
        self._unread = 0
        self._room: list[Callable[[], None]] = []
        self._arrives_ms = [0, 0]
        """When what was sent last arrives, at the server and at the client."""
        self._inbox: deque[Told | None] = deque()
        self._awaits: Signal | None = None
        self._conversation = AmqpConversation(service, self)
        # Else their order would be that of addresses in memory.
        self._conversation.waiting = Calls()

    # The client's end

    def say(self, data: bytes) -> None:
        """Send to the server."""
        rng = self._world.rng
        while data:
            size = rng.randint(1, PIECE_BYTES)
            piece, data = data[:size], data[size:]
            if self._breaks():
                return
            self._at(0, partial(self._arrive, piece))

    async def next(self, patience_ms: int) -> Told:
        """Return what comes next; raises Lost, or Unanswered if nothing does."""
        if not self._inbox:
            signal = self._awaits = Signal()
            self._world.at(patience_ms, lambda: signal.tell(Unanswered("nothing")))
            await signal
        told = self._inbox.popleft()
        if told is None:
            raise Lost
        return told

    def cut(self) -> None:
        """End the client's end; the server notices some time."""
        if not self._is_cut:
            self._is_cut = True
            self._loses = self._world.rng.random() < 0.5
            self._hear(None)
            late_ms = 0 if self._world.is_calm else self._world.rng.randint(0, 1_500)
            self._at_server(late_ms, self._notice)

    def _hear(self, told: Told | None) -> None:
        self._inbox.append(told)
        if self._awaits is not None:
            awaits, self._awaits = self._awaits, None
            awaits.tell(None)

    # The network

    def _at(self, end: int, call: Callable[[], None]) -> None:
        """Call when something arrives at an end of the connection: 0 is the server's."""
        now_ms = self._world.now_ms
        due_ms = max(self._arrives_ms[end], now_ms + self._world.rng.randint(1, 20))
        self._arrives_ms[end] = due_ms
        if end:
            self._world.at(due_ms - now_ms, call)
        else:
            self._at_server(due_ms - now_ms, call)

    def _at_server(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Call in the server's process, unless that is dead by then."""
        loop = self._loop
        self._world.at(delay_ms, lambda: None if loop.is_dead or self._is_over else call())

    def _breaks(self) -> bool:
        world = self._world
        if self._is_cut:
            return True
        if not world.is_calm and world.rng.random() < CUTS:
            world.deeds["amqp: connection cut"] += 1
            self.cut()
        return self._is_cut

    def server_died(self) -> None:
        """Tell the client, after what is on its way to it."""
        if not self._is_cut:
            self._at(1, self._closed_by_server)

    def _closed_by_server(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._hear(None)

    # The server's end

    def _arrive(self, data: bytes) -> None:
        if not (self._is_cut and self._loses):
            self._backlog += data
            self._handle()
            self._world.commit_soon()

    def _handle(self) -> None:
        """Handle what has come, as far as no answer holds the rest up."""
        while self._backlog and self._holds is None and not self._is_over:
            view = memoryview(bytearray(self._backlog))
            size = self._conversation.frame_size(view)
            if size is None or size > len(view):
                return
            run = self._conversation.handle_run(view) if size < len(view) else None
            answer, size = run or (self._conversation.handle(view[:size]), size)
            self._backlog = self._backlog[size:]
            if not isinstance(answer, Later):
                self.send(answer)
            elif answer.answer is None:
                assert answer.holds
                self._holds = answer
                answer.then(self._go_on)

    def _go_on(self) -> None:
        self._loop.call_soon(self._settled)

    def _settled(self) -> None:
        answer, self._holds = self._holds, None
        if answer is not None and not self._is_over:
            self.send(answer.take())
            self._handle()
            self._world.commit_soon()

    def _notice(self) -> None:
        """End the conversation: the client is gone."""
        if not self._is_over:
            self._world.note("amqp", self.number, "is gone")
            self._is_over = True
            self._conversation.close()
            self._world.commit_soon()

    # What the head has as its outbox

    @property
    def heard_ms(self) -> int:
        return self._world.now_ms

    @property
    def is_full(self) -> bool:
        return self._unread > FULL_BYTES

    def send(self, pieces: Answer) -> None:
        for piece in pieces:
            assert isinstance(piece, bytes)
            for told in self._assembler.take(piece):
                self._world.note("amqp", self.number, "is told", *told)
                self._send(told, len(piece))

    def _send(self, told: Told, size: int) -> None:
        channel, said = told
        if isinstance(said, Message):
            self._show(channel, said)
        self._unread += size

        def arrive() -> None:
            self._unread -= size
            if not self._is_cut:
                self._hear(told)
            self._make_room()

        if not self._breaks():
            self._at(1, arrive)

    def _show(self, channel: int, message: Message) -> None:
        match message.carrier:
            case methods.BasicDeliver() as carrier:
                # Consumers have the names of their queues.
                queue = carrier.consumer_tag
            case methods.BasicGetOk() as carrier:
                queue = self.getting[channel]
            case _:
                return
        body, redelivered = message.body, carrier.redelivered
        if queue in QUEUES:
            held = delivered(queue, body, message.properties, redelivered=redelivered)
            self._head.timed_book.sent(held)
        else:
            self._head.book.sent(queue, body, redelivered)

    def _make_room(self) -> None:
        if not self.is_full and not self._loop.is_dead:
            room, self._room = self._room, []
            for call in room:
                self._loop.call_soon(call)

    def when_room(self, call: Callable[[], None]) -> None:
        self._room.append(call)
        self._make_room()

    def close(self, reason: str = "") -> None:
        self.end((), reason)

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        if not self._is_over:
            self.send(farewell)
            self._notice()
            if not self._is_cut:
                self._at(1, self._closed_by_server)


class Assembler:
    """Puts together what a server has sent: frames, and messages of several frames."""

    def __init__(self) -> None:
        self._kept = b""
        self._carrier: Carrier | None = None
        self._left = -1
        """Bytes of a body that are still to come; -1 before its header."""
        self._body = self._properties = b""

    def take(self, data: bytes) -> list[Told]:
        """Return what is whole by now."""
        self._kept += data
        found: list[Told] = []
        while len(self._kept) >= HEAD.size:
            size = HEAD.unpack_from(self._kept)[2] + HEAD.size + 1
            if len(self._kept) < size:
                break
            channel, said = read_frame(self._kept[:size])
            self._kept = self._kept[size:]
            whole = self._add(said)
            if whole is not None:
                found.append((channel, whole))
        return found

    def _add(self, said: Said) -> Said | Message | None:
        if self._carrier is None:
            if not isinstance(said, Carrier):
                return said
            self._carrier, self._left, self._body = said, -1, b""
            return None
        assert isinstance(said, bytes)
        if self._left < 0:
            self._left = int.from_bytes(said[4:12], "big")
            self._properties = said[12:]
        else:
            self._body += said
            self._left -= len(said)
        if self._left:
            return None
        message = Message(self._carrier, self._body, self._properties)
        self._carrier = None
        return message
