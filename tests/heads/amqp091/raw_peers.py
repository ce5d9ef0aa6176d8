"""AMQP peers that speak byte by byte, and a healthy client beside them."""

import socket
import struct
from collections.abc import Iterator
from typing import Self

import msgspec
from tests.heads.amqp091.talking import START_OK, TUNE_OK, connecting, content_header
from tests.heads.server_process import connected

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    FRAME_END,
    HEAD,
    HEADER,
    HEARTBEAT,
    METHOD,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.fields import Value
from mainstem.heads.amqp091.methods import Bare, Method, decode_method
from mainstem.heads.amqp091.properties import NO_PROPERTIES, Properties, encode_properties

Said = Method | Bare | bytes
"""A method, or the payload of a content header, a part of a body, a heartbeat."""
PART_BYTES = 131_072 - 8
PERSISTENT = encode_properties(Properties(delivery_mode=2))


def frames_in(data: bytes) -> list[tuple[int, Said]]:
    """Return what whole frames say, and on which channel."""
    found: list[tuple[int, Said]] = []
    while data:
        size = frame_size(data)
        assert size is not None
        assert len(data) >= size
        found.append(read_frame(data[:size]))
        data = data[size:]
    return found


def frame_size(data: bytes | bytearray) -> int | None:
    """Return the size of the frame that begins here, None if that cannot be told yet."""
    if len(data) < HEAD.size:
        return None
    size: int = HEAD.unpack_from(data)[2]
    return HEAD.size + size + 1


def read_frame(data: bytes) -> tuple[int, Said]:
    """Return what a frame says, and on which channel."""
    kind, channel, _ = HEAD.unpack_from(data)
    assert kind in (METHOD, HEADER, BODY, HEARTBEAT)
    assert data[-1] == FRAME_END
    payload = data[HEAD.size : -1]
    return channel, decode_method(payload) if kind == METHOD else payload


def publish(
    routing_key: str,
    body: bytes = b"",
    properties: bytes = NO_PROPERTIES,
    *,
    exchange: str = "",
    channel: int = 1,
    mandatory: bool = False,
) -> bytes:
    """Return a message with all its frames."""
    method = methods.BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    parts = [
        frame(BODY, channel, body[at : at + PART_BYTES]) for at in range(0, len(body), PART_BYTES)
    ]
    header = frame(HEADER, channel, content_header(len(body), properties))
    return b"".join((method_frame(channel, method), header, *parts))


def queue_declare(queue: str, **arguments: Value) -> Method:
    """Declare a queue that is not durable; arguments without x-, and with _ for -."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return methods.QueueDeclare(queue=queue, arguments=named)


class Peer:
    """A socket, and as much of AMQP as whoever holds it wants to respect."""

    def __init__(self, address: str, *, receive_buffer: int = 0) -> None:
        self.socket = connected(address, receive_buffer)
        # Else a small frame behind another one waits for 40 ms.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = "{}:{}".format(*self.socket.getsockname())
        """Its address, as the server's log has it."""
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def connect(self, *channels: int, heartbeat_s: int = 60) -> Self:
        """Log in, and open channels; without heartbeats (0) the peer may stay silent for ever."""
        tune_ok = msgspec.structs.replace(TUNE_OK, heartbeat=heartbeat_s)
        self.send(connecting(START_OK, tune_ok, methods.ConnectionOpen()))
        for expected in (
            methods.ConnectionStart,
            methods.ConnectionTune,
            methods.ConnectionOpenOk,
        ):
            assert isinstance(self.next()[1], expected)
        for channel in channels:
            self.ask(methods.ChannelOpen(), channel=channel)
        return self

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, *asked: Method | Bare, channel: int = 1) -> None:
        """Send methods."""
        self.send(b"".join(method_frame(channel, each) for each in asked))

    def ask(self, method: Method | Bare, *, channel: int = 1) -> Said:
        """Send a method, and return the next answer on its channel."""
        self.say(method, channel=channel)
        found, answer = self.next()
        assert found == channel
        return answer

    def next(self) -> tuple[int, Said]:
        """Return the next frame, heartbeats left out; raises EOFError if the server closes."""
        while True:
            size = frame_size(self._received)
            if size is None or size > len(self._received):
                data = self.socket.recv(1 << 20)
                if not data:
                    raise EOFError
                self._received += data
                continue
            found = read_frame(bytes(self._received[:size]))
            del self._received[:size]
            if found != (0, b""):
                return found

    def message(self) -> tuple[methods.BasicDeliver | methods.BasicGetOk, bytes]:
        """Return the next message, its properties left out."""
        _, method = self.next()
        assert isinstance(method, methods.BasicDeliver | methods.BasicGetOk), method
        _, header = self.next()
        assert isinstance(header, bytes)
        size, body = int.from_bytes(header[4:12], "big"), b""
        while len(body) < size:
            _, part = self.next()
            assert isinstance(part, bytes)
            body += part
        return method, body

    def get(self, queue: str) -> bytes:
        """Take a message from a queue, and acknowledge it."""
        self.say(methods.BasicGet(queue=queue))
        taken, body = self.message()
        self.say(methods.BasicAck(taken.delivery_tag))
        return body

    def declare(self, queue: str, **arguments: Value) -> None:
        """Declare a queue that is not durable."""
        answer = self.ask(queue_declare(queue, **arguments))
        assert isinstance(answer, methods.QueueDeclareOk), answer

    def last_words(self) -> list[Said]:
        """Return what comes until the server closes."""
        return list(self._until_the_end())

    def _until_the_end(self) -> Iterator[Said]:
        while True:
            try:
                yield self.next()[1]
            except (EOFError, ConnectionError):
                return

    def reset(self) -> None:
        """Go without a word, as a machine does that is switched off."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Healthy:
    """A client that does nothing wrong: what it publishes is confirmed, and comes back."""

    def __init__(self, address: str) -> None:
        self._peer = Peer(address).connect(1)
        self._sent = 0
        self.queue = f"healthy.{self._peer.name}"
        for asked in (
            methods.QueueDeclare(queue=self.queue, durable=True),
            methods.ConfirmSelect(),
            methods.BasicConsume(queue=self.queue),
        ):
            self._peer.ask(asked)
        self.check()

    def check(self) -> None:
        """Publish, and consume."""
        body = b"%d" % self._sent
        self._peer.send(publish(self.queue, body, PERSISTENT))
        self._sent += 1
        told: list[Said] = []
        while len(told) < 4:
            told.append(self._peer.next()[1])
        (delivered,) = [each for each in told if isinstance(each, methods.BasicDeliver)]
        assert not delivered.redelivered
        told.remove(delivered)
        told.remove(methods.BasicAck(self._sent))
        assert told == [content_header(len(body), PERSISTENT), body]
        self._peer.say(methods.BasicAck(delivered.delivery_tag))

    def close(self) -> None:
        self._peer.ask(methods.QueueDelete(queue=self.queue))
        self._peer.socket.close()
