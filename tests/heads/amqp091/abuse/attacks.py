"""Shared by the abuse tests of the AMQP head."""

import contextlib
import time
from collections.abc import Iterator

from tests.heads.amqp091.raw_peers import Peer, publish
from tests.heads.amqp091.talking import content_header
from tests.heads.server_process import Process

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    HEADER,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.fields import long_string
from mainstem.heads.amqp091.methods import Bare
from mainstem.heads.amqp091.properties import NO_PROPERTIES

MIB = 1 << 20
FRAME_MAX = 131_072
MAX_MESSAGE = 16 * MIB
HANDSHAKE_MS = 500
"""How long a client may take to log in."""
TUNE_OK = methods.ConnectionTuneOk
HEADERS_FLAG, CONTENT_TYPE, TIMESTAMP = 0x2000, 0x8000, 0x0040
"""Which properties a message has."""


def confirmed(peer: Peer, last: int) -> None:
    """Wait until all messages of a channel are confirmed."""
    while True:
        _, told = peer.next()
        assert isinstance(told, methods.BasicAck)
        if told.delivery_tag == last:
            return


@contextlib.contextmanager
def cut_off(server: Process, peer: Peer) -> Iterator[None]:
    """Expect that the log says of a peer that it was cut off, and why."""
    # An earlier peer may have had the same port.
    before = len(server.logged())
    yield
    lines = server.logged()[before:].splitlines()
    (line,) = [each for each in lines if f"{peer.name}: " in each]
    assert line.partition(f"{peer.name}: ")[2]


def closed(peer: Peer) -> ReplyCode:
    """Return why the server closes the connection, and agree with it."""
    while True:
        _, told = peer.next()
        if isinstance(told, methods.ConnectionClose):
            break
    assert told.reply_text.startswith(f"{ReplyCode(told.reply_code).name} - ")
    with contextlib.suppress(OSError):
        peer.say(Bare.CONNECTION_CLOSE_OK, channel=0)
        assert peer.last_words() == []
    return ReplyCode(told.reply_code)


def refused(peer: Peer, channel: int = 1) -> ReplyCode:
    """Return why the server closes a channel."""
    while True:
        found, told = peer.next()
        assert not isinstance(told, methods.ConnectionClose), told
        if isinstance(told, methods.ChannelClose):
            break
    assert found == channel
    assert told.reply_text.startswith(f"{ReplyCode(told.reply_code).name} - ")
    return ReplyCode(told.reply_code)


def deep(depth: int) -> bytes:
    """Return a table with others in it."""
    inner = b""
    for _ in range(depth):
        inner = b"\1kF" + long_string(inner)
    return long_string(inner)


def a_message(
    size: int, *parts: bytes, properties: bytes = NO_PROPERTIES, channel: int = 1
) -> bytes:
    """Return a message whose header may lie."""
    method = method_frame(channel, methods.BasicPublish(routing_key="nowhere"))
    header = frame(HEADER, channel, content_header(size, properties))
    return method + header + b"".join(frame(BODY, channel, part) for part in parts)


def publish_many(peer: Peer, queue: str, count: int, size: int) -> None:
    """Publish messages, and wait until the queue has them."""
    body = bytes(size)
    for _ in range(count):
        peer.send(publish(queue, body))
    seen(peer, queue)


def seen(peer: Peer, queue: str) -> int:
    """Return how many messages a queue has, once it has all that were published."""
    told = peer.ask(methods.QueueDeclare(queue=queue, passive=True))
    assert isinstance(told, methods.QueueDeclareOk)
    return told.message_count


def flood(peer: Peer, data: bytes) -> None:
    """Send until nothing more is taken, or it was sent ten times."""
    peer.socket.setblocking(False)
    sent, idle = 0, 0
    while sent < 10 * len(data) and idle < 20:
        try:
            sent += peer.socket.send(data[sent % len(data) :])
            idle = 0
        except BlockingIOError:
            idle += 1
            time.sleep(0.01)


def eventually(peer: Peer, queue: str) -> bytes:
    """Take a message from a queue once there is one."""
    while True:
        peer.say(methods.BasicGet(queue=queue, no_ack=True))
        _, told = peer.next()
        if isinstance(told, methods.BasicGetOk):
            peer.next()
            found = peer.next()[1]
            assert isinstance(found, bytes)
            return found
        time.sleep(0.01)
