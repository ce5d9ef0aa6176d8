"""pika's blocking connection, for tests of the AMQP head: opened, consumed from, closed."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pika  # type: ignore[import-untyped]
from pika.adapters.blocking_connection import (  # type: ignore[import-untyped]
    BlockingChannel,
    BlockingConnection,
)
from tests.loop_thread import PATIENCE_S

from mainstem.node.config import Config
from mainstem.node.server import Running

CONFIG = Config().listening(amqp="127.0.0.1:0")
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def parameters(address: tuple[str, int], **options: object) -> pika.ConnectionParameters:
    """Return how to connect; a server that does not answer is given up in time."""
    host, port = address
    return pika.ConnectionParameters(
        host, port, blocked_connection_timeout=PATIENCE_S, socket_timeout=PATIENCE_S, **options
    )


Where = Running | tuple[str, int]


def address_of(where: Where) -> tuple[str, int]:
    """Return where a server has its AMQP head."""
    return where.addresses["amqp"].pair if isinstance(where, Running) else where


@contextmanager
def connected(where: Where, **options: object) -> Iterator[BlockingConnection]:
    """Open a connection, and close it if that is still to be done."""
    connection = BlockingConnection(parameters(address_of(where), **options))
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


@contextmanager
def channel_of(where: Where, **options: object) -> Iterator[BlockingChannel]:
    """Open a connection with one channel."""
    with connected(where, **options) as connection:
        yield connection.channel()


class Message(NamedTuple):
    """A message as pika hands it out."""

    method: pika.spec.Basic.Deliver
    properties: pika.BasicProperties
    body: bytes

    @property
    def tag(self) -> int:
        """What it is acknowledged by."""
        return int(self.method.delivery_tag)

    @property
    def redelivered(self) -> bool:
        """Whether the broker says that it comes again."""
        return bool(self.method.redelivered)


class Inbox:
    """A consumer, and what it was given."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: object) -> None:
        self._channel = channel
        self.received: deque[Message] = deque()
        self.cancelled: list[str] = []
        channel.add_on_cancel_callback(
            lambda frame: self.cancelled.append(frame.method.consumer_tag)
        )
        self.tag = channel.basic_consume(queue, self._put, **options)

    def _put(
        self,
        channel: BlockingChannel,
        method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        self.received.append(Message(method, properties, body))

    def next(self) -> Message:
        """Wait for the next message."""
        self._wait_for(lambda: self.received)
        return self.received.popleft()

    def take(self, count: int) -> list[Message]:
        """Wait for so many messages."""
        return [self.next() for _ in range(count)]

    def wait_until_cancelled(self) -> str:
        """Wait until the broker ends a consumer of the channel; return its tag."""
        self._wait_for(lambda: self.cancelled)
        return self.cancelled.pop()

    def _wait_for(self, true: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not true():
            left = until - time.monotonic()
            assert left > 0, "nothing came"
            self._channel.connection.process_data_events(left)


def bodies(messages: list[Message]) -> list[bytes]:
    """Return what messages say."""
    return [each.body for each in messages]


def drained(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Take all that a queue has."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def waiting(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages a queue has for whoever comes."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)
