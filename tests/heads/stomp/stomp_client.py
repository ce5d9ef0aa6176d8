"""STOMP clients without sockets: conversations with the head on an in-memory broker."""

import asyncio

from tests.heads.contexts import context_on
from tests.heads.outbox import Outbox

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.conversation import Later, ProtocolError
from mainstem.heads.stomp.adapter.conversation import StompConversation
from mainstem.heads.stomp.adapter.service import Service
from mainstem.heads.stomp.codec import Frame, FrameScanner, Version, decode, encode
from mainstem.heads.stomp.settings import StompSettings
from mainstem.log.memory import MemoryLog

SETTINGS = StompSettings()
DEFAULTS = TopicSettings()
TURNS = 30
"""Turns of the event loop after which nothing is pending."""


class World:
    """A broker and the state that its STOMP clients share; its clock stands still."""

    def __init__(
        self,
        settings: StompSettings = SETTINGS,
        defaults: TopicSettings = DEFAULTS,
        auth: Auth | None = None,
    ) -> None:
        self.now_ms = 1_000_000
        self.broker = Broker(MemoryLog(now_ms=self._now), self._now, monotonic_ms=self._now)
        self.context = context_on(self.broker, self._now, defaults, auth)
        self.service = Service(self.context, settings, self._now)

    def _now(self) -> int:
        return self.now_ms

    async def client(self, version: str = "1.2", **headers: str) -> "Client":
        """Connect."""
        client = Client(self, Version(version))
        (connected,) = await client.asks("CONNECT", accept_version=version, host="/", **headers)
        assert connected.command == "CONNECTED"
        return client


class Client:
    """One client: sends frames and collects those it receives."""

    def __init__(self, world: World, version: Version = Version.V1_2) -> None:
        self.world = world
        self.version = version
        self.box = Outbox(world.now_ms)
        self.conversation = StompConversation(world.service, self.box)
        self.box.end_conversation = self._end
        self._owed: list[Later] = []
        self._backlog = b""

    def leave(self) -> None:
        """Disconnect without a DISCONNECT frame."""
        self.box.end()

    def say(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Send a frame; in header names _ stands for -."""
        named = [(name.rstrip("_").replace("_", "-"), value) for name, value in headers.items()]
        self.say_bytes(encode(command, named, body, self.version))

    def say_bytes(self, data: bytes) -> None:
        assert not self.box.ended, "the conversation is over"
        self._backlog += data
        self._handle()

    def _handle(self) -> None:
        """Hand sent frames to the conversation, up to an answer that holds back the rest."""
        try:
            while self._backlog and not any(each.holds for each in self._owed):
                view = memoryview(self._backlog)
                size = self.conversation.frame_size(view)
                assert size is not None
                answer = self.conversation.handle(view[:size])
                self._backlog = self._backlog[size:]
                later = answer if isinstance(answer, Later) else Later()
                if not isinstance(answer, Later):
                    later.settle(answer)
                self._owed.append(later)
                self._take_settled()
        except ProtocolError as error:
            self.box.end((error.farewell,), str(error))

    def told(self) -> list[Frame]:
        """Return the frames received since the last call, without heart-beats."""
        scanner, found = FrameScanner(StompSettings()), list[Frame]()
        view = memoryview(self.box.said)
        while view and (size := scanner.size(view)) and size <= len(view):
            frame = decode(view[:size], StompSettings(), self.version)
            scanner.forget()
            view = view[size:]
            if frame is not None:
                found.append(frame)
        assert not view
        self.box.said = b""
        return found

    async def asks(self, command: str, body: bytes = b"", /, **headers: str) -> list[Frame]:
        """Send a frame; return the frames received in reply."""
        self.say(command, body, **headers)
        return await self.rest()

    async def rest(self) -> list[Frame]:
        """Run everything that is pending; return the frames received."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
            self._take_settled()
            self._handle()
        return self.told()

    def _take_settled(self) -> None:
        while self._owed and self._owed[0].answer is not None:
            later = self._owed.pop(0)
            self.box.send(later.take())
            if isinstance(later.failed, ProtocolError):
                self._backlog = b""
                self.box.end((later.failed.farewell,))

    def _end(self) -> None:
        self._backlog = b""
        self._take_settled()
        self.conversation.close()
