"""PUB for named subscribers: from the cursor on, one at a time, at the pace of who reads."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import AsyncIterator, Iterator

import msgspec
import pynng
import pytest
from tests.broker.brokers import Clock
from tests.faults.killable_server import free_port
from tests.heads.contexts import context_on
from tests.heads.nng.nng_head import ServedNng, received, serving
from tests.heads.outbox import Outbox
from tests.heads.transport.echo import until
from tests.heads.zmq.zmq_head import TOPIC, broker_with_topic

from mainstem.auth import Auth, deny_all
from mainstem.broker.broker import Broker
from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event
from mainstem.core.wire import ProtocolError
from mainstem.heads.addresses import parse_address
from mainstem.heads.brokerless.addresses import Place
from mainstem.heads.brokerless.codec import Published, decode_whole
from mainstem.heads.nng import sp
from mainstem.heads.nng.metrics import SUBSCRIBER_MISSED, SUBSCRIBER_SENT
from mainstem.heads.nng.settings import NngSettings
from mainstem.heads.nng.subscriber import HANDSHAKE_MS, Subscriber

NAME = "desk"
FAST = {"subscriber_rate": 1_000_000}


class Named(msgspec.Struct, eq=False):
    """A head with a named subscriber's address."""

    served: ServedNng
    at: str

    @contextlib.contextmanager
    def subscriber(self) -> "Iterator[pynng.Sub0]":
        """Return a plain subscriber with a large buffer, so that it drops nothing itself."""
        with pynng.Sub0(topics=[b""], recv_buffer_size=8192) as found:
            found.dial(f"tcp://{self.at}", block=False)
            yield found

    def cursor(self, partition: int = 0) -> int | None:
        found = self.served.broker.cursor(NAME, TOPIC, partition)
        return None if found is None else found.offset

    def publish(self, first: int, end: int, partition: int = 0) -> None:
        events = [Event(b"%d" % number) for number in range(first, end)]
        self.served.broker.publish(TOPIC, events, partition)


@contextlib.asynccontextmanager
async def named(
    broker: Broker | None = None, auth: Auth | None = None, **settings: object
) -> AsyncIterator[Named]:
    at = f"127.0.0.1:{free_port()}"
    wanted = FAST | {"subscribers": f"{TOPIC}/{NAME}={at}"} | settings
    async with serving(broker, auth, **wanted) as served:
        yield Named(served, at)


async def take(subscriber: "pynng.Sub0", count: int) -> list[Published]:
    return [decode_whole(await received(subscriber)) for _ in range(count)]


def offsets(found: list[Published]) -> list[int]:
    return [each.event.offset for each in found]


async def test_who_was_away_goes_on_at_the_cursor() -> None:
    async with named(subscriber_repeat=10) as it:
        it.publish(0, 1_000)
        with it.subscriber() as first:
            assert offsets(await take(first, 1_000)) == list(range(1_000))
            it.publish(1_000, 1_100)
            assert offsets(await take(first, 100)) == list(range(1_000, 1_100))
            await until(lambda: it.cursor() == 1_090)
        it.publish(1_100, 2_000)

        with it.subscriber() as again:
            found = await take(again, 910)

        assert offsets(found) == list(range(1_090, 2_000))
        assert [each.after for each in found] == offsets(found)
        # More, if some were sent before the first one was seen to have gone.
        assert it.served.metric(SUBSCRIBER_SENT, TOPIC, NAME) >= 1_100 + 910


async def test_events_come_at_the_rate_that_is_set() -> None:
    async with named(subscriber_rate=1_000) as it:
        it.publish(0, 132)
        began = asyncio.get_running_loop().time()
        with pynng.Sub0(topics=[b""]) as subscriber:
            subscriber.dial(f"tcp://{it.at}", block=False)
            assert len(await take(subscriber, 132)) == 132
        # A burst of 32, then a hundred in no less than a tenth of a second.
        assert asyncio.get_running_loop().time() - began > 0.09


def parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@contextlib.asynccontextmanager
async def raw(it: Named, limit: int = 1 << 16) -> AsyncIterator[asyncio.StreamReader]:
    """A subscriber by hand; in the end, the head knows that it has gone."""
    reader, writer = await asyncio.open_connection(*parts(it.at), limit=limit)
    writer.write(sp.header(sp.SUB))
    try:
        assert await reader.readexactly(8) == sp.header(sp.PUB)
        yield reader
    finally:
        writer.transport.abort()
        await until(lambda: not it.served.head.connections())


async def message(reader: asyncio.StreamReader) -> Published:
    (size,) = struct.unpack(">Q", await reader.readexactly(8))
    return decode_whole(await reader.readexactly(size))


SIZE = 10_000


async def test_while_it_does_not_read_nothing_more_is_sent_and_nothing_lost() -> None:
    async with named() as it:
        publish_much(it)
        async with raw(it, limit=4_096) as stopped:
            await until(lambda: is_full(it))
            assert it.served.metric(SUBSCRIBER_SENT) < 4_000

            found = [await message(stopped) for _ in range(4_000)]

        assert offsets(found) == list(range(4_000))


async def test_the_cursor_is_where_tcp_has_acknowledged() -> None:
    async with named(subscriber_repeat=0) as it:
        publish_much(it)
        with socket.create_connection(parts(it.at)) as stopped:
            stopped.sendall(sp.header(sp.SUB))

            def arrived() -> int:
                held = fcntl.ioctl(stopped, termios.FIONREAD, bytes(4))
                return int(struct.unpack("i", held)[0]) // SIZE

            await until(lambda: is_full(it) and (it.cursor() or 0) >= arrived() // 2 > 0)
            cursor = it.cursor() or 0
            assert cursor <= arrived()
            assert cursor < it.served.metric(SUBSCRIBER_SENT)
        await until(lambda: not it.served.head.connections())
        cursor = it.cursor() or 0

        async with raw(it) as again:
            assert (await message(again)).event.offset == cursor


def publish_much(it: Named) -> None:
    """Publish more than kernels keep of a connection."""
    for _ in range(8):
        it.served.broker.publish(TOPIC, [Event(bytes(SIZE)) for _ in range(500)])


def is_full(it: Named) -> bool:
    """Return whether TCP takes no more."""
    (subscriber,) = it.served.head._subscribers
    return any(each.is_full for each in subscriber.server._connections)


async def test_a_second_subscriber_is_refused_while_the_first_is_there() -> None:
    async with named() as it:
        async with raw(it) as first:
            with it.subscriber():
                await until(lambda: it.served.head.traffic.refused > 0)
            it.publish(0, 3)
            assert offsets([await message(first) for _ in range(3)]) == [0, 1, 2]
            assert len(it.served.head.connections()) == 1
        with it.subscriber() as second:
            assert offsets(await take(second, 3)) == [0, 1, 2]


async def test_what_retention_has_deleted_shows() -> None:
    async with named(subscriber_repeat=0) as it:
        it.publish(0, 10)
        async with raw(it) as first:
            for _ in range(10):
                await message(first)
            await until(lambda: it.cursor() == 10)
        it.publish(10, 20)
        it.served.broker.trim(TOPIC, 0, 15)

        async with raw(it) as again:
            found = await message(again)

        assert (found.event.offset, found.after) == (15, 15)
        assert it.served.metric(SUBSCRIBER_MISSED, TOPIC, NAME) == 5


async def test_partitions_that_are_added_are_sent_too() -> None:
    async with named() as it:
        async with raw(it) as reader:
            it.publish(0, 1)
            await message(reader)
            it.served.broker.alter_topic(TOPIC, partitions=2)
            it.publish(1, 2, partition=1)

            found = await message(reader)
        assert (found.event.partition, found.event.value) == (1, b"1")


async def test_who_may_not_read_the_topic_is_disconnected() -> None:
    async with named(auth=Auth(authorize=deny_all)) as it, raw(it) as reader:
        assert await reader.read() == b""
        assert it.served.head.traffic.cut_off == 1


@pytest.mark.parametrize("made", [pynng.Pull0, pynng.Req0])
async def test_other_protocols_of_nng_are_refused(made: "type[pynng.Socket]") -> None:
    async with named() as it:
        with made() as other:
            other.dial(f"tcp://{it.at}", block=False)
            await until(lambda: it.served.head.traffic.cut_off > 0)


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", sp.header(sp.PUB), sp.header(sp.SUB) + b"\0"]
)
async def test_who_says_anything_but_the_header_of_sub_is_cut_off(said: bytes) -> None:
    async with named() as it:
        reader, writer = await asyncio.open_connection(*parts(it.at))
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        assert it.served.head.traffic.cut_off == 1
        writer.close()


class _Silent(Outbox):
    unacknowledged_bytes: int | None = None


async def test_who_says_nothing_is_cut_off() -> None:
    broker = broker_with_topic()
    address = parse_address("127.0.0.1:0", "")
    assert address is not None
    subscriber = Subscriber(context_on(broker, Clock()), Place(TOPIC, address, NAME), NngSettings())
    conversation = subscriber._converse(_Silent(now_ms=1_000))

    assert conversation.deadline() == 1_000 + HANDSHAKE_MS
    with pytest.raises(ProtocolError):
        conversation.tick(1_000 + HANDSHAKE_MS)
    await subscriber.server.close()


@pytest.mark.parametrize(
    ("subscribers", "words"),
    [
        (f"{TOPIC}=127.0.0.1:0", "TOPIC/NAME=HOST:PORT"),
        (f"{TOPIC}/a=127.0.0.1:0,{TOPIC}/a=127.0.0.1:0", "there twice"),
        (f"{TOPIC}/a=192.0.2.1:9", "cannot listen"),
    ],
)
async def test_bad_settings_are_refused(subscribers: str, words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        async with serving(subscribers=subscribers):
            pass
