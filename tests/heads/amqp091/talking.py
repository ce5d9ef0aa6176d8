"""An AMQP client without a socket: sends frames to a session and collects the responses."""

from collections.abc import Iterable

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.errors import AmqpError
from mainstem.heads.amqp091.methods import Bare, Method, decode_method
from mainstem.heads.amqp091.properties import NO_PROPERTIES
from mainstem.heads.amqp091.session import Login, Phase, ProtocolHeader, Received, Session
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.conversation import ProtocolError

Seen = Received | bytes | str
"""A request with its channel, what was sent, or why the connection ended."""

START_OK = methods.ConnectionStartOk(
    {"capabilities": {"authentication_failure_close": True, "connection.blocked": True}},
    "PLAIN",
    b"\0guest\0secret",
    "en_US",
)
TUNE_OK = methods.ConnectionTuneOk(2047, 131_072, 60)


def connecting(*said: bytes | Method | Bare) -> bytes:
    """Return the beginning of a connection."""
    frames = [each if isinstance(each, bytes) else method_frame(0, each) for each in said]
    return PROTOCOL_HEADER + b"".join(frames)


HANDSHAKE = connecting(START_OK, TUNE_OK, methods.ConnectionOpen())


def content_header(
    size: int, properties: bytes = NO_PROPERTIES, class_id: int = 60, weight: int = 0
) -> bytes:
    """Return the payload of a content header."""
    numbers = ((class_id, 2), (weight, 2), (size, 8))
    return b"".join(number.to_bytes(width, "big") for number, width in numbers) + properties


def publish_frames(
    channel: int,
    routing_key: str,
    body: bytes,
    properties: bytes = NO_PROPERTIES,
    part_bytes: int = 4096,
) -> list[bytes]:
    """Return the frames of a message."""
    parts = [body[at : at + part_bytes] for at in range(0, len(body), part_bytes)]
    return [
        method_frame(channel, methods.BasicPublish(routing_key=routing_key)),
        frame(HEADER, channel, content_header(len(body), properties)),
        *(frame(BODY, channel, part) for part in parts),
    ]


class Talk:
    """A session with a client that logs in, is let in, and says what it is told to say."""

    def __init__(self, settings: AmqpSettings | None = None, *, runs: bool = True) -> None:
        self.session = Session(settings or AmqpSettings(), 0)
        self.seen: list[Seen] = []
        self._runs = runs
        self._kept = b""
        self._ended = False

    def opened(self, *channels: int) -> "Talk":
        """Shake hands, and open channels."""
        self.feed([HANDSHAKE])
        assert self.session.phase is Phase.RUNNING
        for channel in channels:
            assert self.say(channel, methods.ChannelOpen()) == [(channel, methods.ChannelOpen())]
        return self

    def say(self, channel: int, *methods: Method | Bare) -> list[Seen]:
        """Say methods; returns what came of it."""
        return self.feed([method_frame(channel, each) for each in methods])

    def feed(self, pieces: Iterable[bytes]) -> list[Seen]:
        """Hand over bytes as a connection does; returns what came of it."""
        before = len(self.seen)
        for piece in pieces:
            self._kept += piece
            while not self._ended and self._take():
                pass
        return self.seen[before:]

    def _take(self) -> bool:
        """Take a frame, or many at once, if they are whole."""
        # Where it was received, the transport may write over it.
        data = memoryview(bytearray(self._kept))
        size: int | None = None
        try:
            size = self.session.frame_size(data) if data else None
            if size is None or size > len(data):
                return False
            found: list[Received] = []
            if self._runs and size < len(data):
                run, taken = self.session.receive_run(data)
                found += run
                size = taken or size
            if not found:
                received = self.session.receive(data[:size])
                found = [] if received is None else [received]
        except AmqpError as error:
            self.seen.append(self.session.refused(error, self.session.channel, 0))
        except ProtocolError as error:
            self.seen += [error.farewell, str(error)]
            self._ended = True
        else:
            self.seen += found
            for _, request in found:
                self._let_in(request)
        assert size is not None or self._ended
        self._kept = self._kept[size or 0 :]
        return not self._ended

    def _let_in(self, request: object) -> None:
        match request:
            case ProtocolHeader():
                self.session.start({})
            case Login():
                self.session.tune()
            case methods.ConnectionOpen():
                self.session.open_ok()


def said(data: bytes) -> tuple[int, Method | Bare]:
    """Return the channel and the method of a frame."""
    assert data[0] == METHOD
    assert data[-1] == 0xCE
    assert int.from_bytes(data[3:7], "big") == len(data) - 8
    return int.from_bytes(data[1:3], "big"), decode_method(data[7:-1])
