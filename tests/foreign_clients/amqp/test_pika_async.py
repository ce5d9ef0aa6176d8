"""pika, unmodified, by callbacks: SelectConnection and AsyncioConnection."""

import asyncio
from collections.abc import Callable
from functools import partial

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection  # type: ignore[import-untyped]
from tests.foreign_clients.amqp.pika_client import PERSISTENT, address_of, parameters
from tests.foreign_clients.compatibility import AMQP
from tests.loop_thread import PATIENCE_S

from mainstem.node.server import Running

pytestmark = pytest.mark.client("pika", "1.4", AMQP)
SENT = 500


class Round:
    """Publishes with confirms and consumes with a prefetch, until all of it has come back."""

    def __init__(self, connection: pika.connection.Connection, queue: str) -> None:
        self._connection = connection
        self._queue = queue
        self.confirmed: set[int] = set()
        self.nacked = 0
        self.received: list[int] = []
        self.most_unacked = self._unacked = 0
        connection.channel(on_open_callback=self._opened)

    def _opened(self, channel: pika.channel.Channel) -> None:
        self._channel = channel
        channel.queue_declare(self._queue, durable=True, callback=self._declared)

    def _declared(self, frame: pika.frame.Method) -> None:
        self._channel.confirm_delivery(self._confirmed, callback=self._selected)

    def _selected(self, frame: pika.frame.Method) -> None:
        self._channel.basic_qos(prefetch_count=7, callback=self._limited)

    def _limited(self, frame: pika.frame.Method) -> None:
        self._channel.basic_consume(self._queue, self._on_message)
        for number in range(SENT):
            self._channel.basic_publish("", self._queue, b"%d" % number, PERSISTENT)

    def _confirmed(self, frame: pika.frame.Method) -> None:
        self.nacked += isinstance(frame.method, pika.spec.Basic.Nack)
        tag = frame.method.delivery_tag
        numbers = set(range(1, tag + 1)) - self.confirmed if frame.method.multiple else {tag}
        assert not numbers & self.confirmed
        self.confirmed |= numbers
        self._end_if_done()

    def _on_message(
        self,
        channel: pika.channel.Channel,
        method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        self.received.append(int(body))
        self._unacked += 1
        self.most_unacked = max(self.most_unacked, self._unacked)
        if self._unacked == 7 or len(self.received) == SENT:
            channel.basic_ack(method.delivery_tag, multiple=True)
            self._unacked = 0
        self._end_if_done()

    def _end_if_done(self) -> None:
        if len(self.received) == SENT == len(self.confirmed):
            self._connection.close()

    def check(self) -> None:
        """Look at what came."""
        assert self.received == list(range(SENT))
        assert self.confirmed == set(range(1, SENT + 1))
        assert (self.nacked, self.most_unacked) == (0, 7)


@pytest.mark.shows("publish", "SelectConnection")
def test_select_connection_publishes_and_consumes(running: Running) -> None:
    rounds: list[Round] = []
    errors: list[BaseException] = []

    def ended(connection: pika.SelectConnection, error: BaseException) -> None:
        errors.append(error)
        connection.ioloop.stop()

    connection = pika.SelectConnection(
        parameters(address_of(running)),
        on_open_callback=lambda opened: rounds.append(Round(opened, "selected")),
        on_open_error_callback=ended,
        on_close_callback=ended,
    )
    connection.ioloop.call_later(PATIENCE_S, connection.ioloop.stop)
    connection.ioloop.start()
    connection.ioloop.close()

    rounds[0].check()
    assert [type(error) for error in errors] == [pika.exceptions.ConnectionClosedByClient]


@pytest.mark.shows("publish", "AsyncioConnection")
async def test_asyncio_connection_publishes_and_consumes(running: Running) -> None:
    done: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    rounds: list[Round] = []

    def ended(connection: AsyncioConnection, error: BaseException) -> None:
        done.set_result(error)

    AsyncioConnection(
        parameters(address_of(running)),
        on_open_callback=lambda opened: rounds.append(Round(opened, "by asyncio")),
        on_open_error_callback=ended,
        on_close_callback=ended,
    )
    error = await asyncio.wait_for(done, PATIENCE_S)

    rounds[0].check()
    assert isinstance(error, pika.exceptions.ConnectionClosedByClient)


async def test_channels_of_a_connection_do_not_disturb_one_another(running: Running) -> None:
    loop = asyncio.get_running_loop()
    closed: asyncio.Future[BaseException] = loop.create_future()
    opened: asyncio.Future[AsyncioConnection] = loop.create_future()
    connection = AsyncioConnection(
        parameters(address_of(running)),
        on_open_callback=opened.set_result,
        on_close_callback=lambda _, error: closed.set_result(error),
    )
    await asyncio.wait_for(opened, PATIENCE_S)

    async def answered(call: Callable[..., object]) -> object:
        answer: asyncio.Future[object] = loop.create_future()
        call(callback=answer.set_result)
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def channel() -> pika.channel.Channel:
        found: asyncio.Future[pika.channel.Channel] = loop.create_future()
        connection.channel(on_open_callback=found.set_result)
        return await asyncio.wait_for(found, PATIENCE_S)

    good, bad = await channel(), await channel()
    refused: asyncio.Future[BaseException] = loop.create_future()
    bad.add_on_close_callback(lambda _, error: refused.set_result(error))
    bad.queue_declare("missing", passive=True)
    await answered(partial(good.queue_declare, "there", durable=True))
    error = await asyncio.wait_for(refused, PATIENCE_S)
    again = await channel()
    await answered(partial(again.queue_declare, "there", passive=True))
    connection.close()

    assert isinstance(error, pika.exceptions.ChannelClosedByBroker)
    assert error.reply_code == 404
    assert good.channel_number != bad.channel_number
    await asyncio.wait_for(closed, PATIENCE_S)
