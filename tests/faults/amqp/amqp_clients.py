"""AMQP clients in threads that continue after a lost connection or a restart of the server.

What they publish and take is noted in a ``TotalQueue``. A publisher never publishes a number again:
what it heard no confirm of may be in the queue, or not.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Self

import pika  # type: ignore[import-untyped]
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.adapters.utils.connection_workflow import (  # type: ignore[import-untyped]
    AMQPConnectorException,
)
from pika.exceptions import AMQPError  # type: ignore[import-untyped]
from pika.spec import Basic, BasicProperties  # type: ignore[import-untyped]
from tests.faults.queue_checker import TotalQueue

PATIENCE_S = 60
AT_ONCE = 20
"""How many messages wait for their confirms, and how many are acknowledged together."""
LIFE = 30
"""After how many messages a consumer that crashes does so."""
QUEUE = "total"
PERSISTENT = BasicProperties(delivery_mode=2)


def _parameters(port: int) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", port, socket_timeout=2, stack_timeout=2)


class _Thread:
    """A thread whose error is told to who waits for its end."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._error = error

    def join(self) -> None:
        self._thread.join(PATIENCE_S * 10)
        assert not self._thread.is_alive(), "it does not end"
        if self._error is not None:
            raise self._error


class Publisher:
    """Publishes numbers with confirms, several at once, to the queue or to an exchange.

    ``size``: how many bytes a message has at least, filled up with spaces.
    """

    def __init__(
        self, port: int, queue: TotalQueue, numbers: range, *, exchange: str = "", size: int = 0
    ) -> None:
        self._size = size
        self._port = port
        self._queue = queue
        self._exchange = exchange
        self._numbers = iter(numbers)
        self._waiting: dict[int, int] = {}
        """Numbers that are not confirmed, by their tags."""
        self._last_tag = 0
        self._is_done = False
        self._thread = _Thread(self._run)

    def finish(self) -> None:
        """Wait until everything is published."""
        self._thread.join()

    def _run(self) -> None:
        while not self._is_done:
            connection = pika.SelectConnection(
                _parameters(self._port),
                on_open_callback=lambda opened: opened.channel(on_open_callback=self._opened),
                on_open_error_callback=lambda failed, _: failed.ioloop.stop(),
                on_close_callback=lambda closed, _: closed.ioloop.stop(),
            )
            connection.ioloop.start()
            connection.ioloop.close()

    def _opened(self, channel: pika.channel.Channel) -> None:
        self._waiting.clear()
        self._last_tag = 0
        confirmed = partial(self._confirmed, channel)
        channel.queue_declare(QUEUE, durable=True)
        channel.confirm_delivery(confirmed, callback=lambda _: self._publish(channel))

    def _publish(self, channel: pika.channel.Channel) -> None:
        for number in islice(self._numbers, AT_ONCE):
            self._queue.note("attempted", number)
            self._last_tag += 1
            self._waiting[self._last_tag] = number
            body = (b"%d" % number).ljust(self._size)
            channel.basic_publish(self._exchange, QUEUE, body, PERSISTENT)
        if not self._waiting:
            self._is_done = True
            channel.connection.close()

    def _confirmed(self, channel: pika.channel.Channel, frame: pika.frame.Method) -> None:
        last = frame.method.delivery_tag
        tags = [tag for tag in self._waiting if tag <= last] if frame.method.multiple else [last]
        for tag in tags:
            number = self._waiting.pop(tag)
            if isinstance(frame.method, Basic.Ack):
                self._queue.note("acknowledged", number)
        if not self._waiting:
            self._publish(channel)


class Consumer:
    """Takes messages, and acknowledges several at once, in a transaction or not.

    ``moves_to``: a queue to which each transaction publishes what it acknowledges. ``lives``: what
    it took on each of its connections, in order. ``pause_s``: how slow it is. ``crash``: how it
    loses its connection, again and again, with what it has not acknowledged.
    """

    def __init__(
        self,
        port: int,
        queue: TotalQueue,
        *,
        commits: bool = False,
        moves_to: str = "",
        pause_s: float = 0,
        crash: Callable[[], None] | None = None,
    ) -> None:
        self._port, self._queue = port, queue
        self._commits, self._moves_to = commits, moves_to
        self._pause_s, self._crash = pause_s, crash
        self._stop = threading.Event()
        self._held: list[tuple[int, int]] = []
        """Tags and numbers that are not acknowledged."""
        self.lives: list[list[int]] = []
        self._thread = _Thread(self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end, as soon as it has acknowledged what it holds."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                connection = pika.BlockingConnection(_parameters(self._port))
            except (AMQPError, AMQPConnectorException):
                time.sleep(0.01)
                continue
            self.lives.append([])
            try:
                self._consume(connection)
                connection.close()
            except AMQPError:
                for _, number in self._held:
                    self._queue.note("gave back", number)
                self._held.clear()

    def _consume(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.basic_qos(prefetch_count=2 * AT_ONCE)
        if self._commits:
            channel.tx_select()
        channel.basic_consume(QUEUE, self._take)
        while not self._stop.is_set():
            # Returns when something has come; if nothing more does, what is held is all.
            connection.process_data_events(0.05)
            self._acknowledge(channel)

    def _take(
        self, channel: BlockingChannel, method: Basic.Deliver, _: BasicProperties, body: bytes
    ) -> None:
        number = int(body)
        self._queue.note("took", number)
        self.lives[-1].append(number)
        self._held.append((method.delivery_tag, number))
        if self._crash is not None and len(self.lives[-1]) == LIFE:
            self._crash()
        # Meanwhile nothing is taken from the connection.
        self._stop.wait(self._pause_s)
        if len(self._held) == AT_ONCE:
            self._acknowledge(channel)

    def _acknowledge(self, channel: BlockingChannel) -> None:
        if not self._held:
            return
        held, self._held = self._held, []
        deed = "doubt"
        try:
            if self._moves_to:
                for _, number in held:
                    channel.basic_publish("", self._moves_to, b"%d" % number, PERSISTENT)
            channel.basic_ack(held[-1][0], multiple=True)
            if self._commits:
                channel.tx_commit()
            deed = "done"
        finally:
            for _, number in held:
                self._queue.note(deed, number)


def drained(port: int, queue: str) -> list[int]:
    """Take all that a queue has."""
    connection = pika.BlockingConnection(_parameters(port))
    channel = connection.channel()
    found: list[int] = []
    while (body := channel.basic_get(queue, auto_ack=True)[2]) is not None:
        found.append(int(body))
    connection.close()
    return found


def waiting(port: int, queue: str) -> int:
    """Return how many messages a queue has for whoever comes."""
    connection = pika.BlockingConnection(_parameters(port))
    count = int(connection.channel().queue_declare(queue, passive=True).method.message_count)
    connection.close()
    return count


def declare(port: int, *queues: str, exchange: str = "") -> None:
    """Declare queues, bound to an exchange if one is named."""
    connection = pika.BlockingConnection(_parameters(port))
    channel = connection.channel()
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        if exchange:
            channel.queue_bind(queue, exchange)
    connection.close()
