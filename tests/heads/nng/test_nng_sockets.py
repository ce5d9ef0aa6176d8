"""PUB, REP, PULL, SUB and PUSH of the nng head, with pynng and nngcat as peers."""

import asyncio
import contextlib
import shutil
import struct

import pynng
import pytest
from tests.broker.brokers import read_all, values
from tests.faults.killable_server import free_port
from tests.heads.nng import sp as wire
from tests.heads.nng.nng_head import received, serving
from tests.heads.transport.echo import until
from tests.heads.zmq.zmq_head import TOPIC, broker_with_topic

from mainstem.auth import Auth, deny_all
from mainstem.core.errors import InvalidSetting, Unsupported
from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import Events, Refusal, decode_whole, joined
from mainstem.heads.nng import sp
from mainstem.heads.nng.metrics import COMMON, DROPPED

NNGCAT = pytest.mark.skipif(
    shutil.which("nngcat") is None, reason="needs nngcat (Debian: nng-utils)"
)


async def test_a_subscriber_receives_the_events_of_its_prefix_from_then_on() -> None:
    async with serving(topics=TOPIC) as served:
        served.broker.publish(TOPIC, [Event(b"before", b"eu-0")])
        subscriber = served.subscriber(b"orders/eu-")
        await served.connected()

        headers = (("h", b"v"), ("n", None))
        served.broker.publish(
            TOPIC, [Event(b"us", b"us-1"), Event(b"eu", b"eu-\x00", headers, timestamp_ms=7)]
        )

        found = decode_whole(await received(subscriber))
        assert found.event == Event(b"eu", b"eu-\x00", headers, 7, TOPIC, 0, 2)
        assert found.after == 2
        assert served.metric(COMMON.published, TOPIC) == 3


async def test_requests_are_answered_from_the_log() -> None:
    async with serving() as served:
        served.broker.publish(TOPIC, [Event(b"%d" % number) for number in range(5)])

        found = await served.answer(b"REPLAY", b"orders", b"0", b"2")

        assert isinstance(found, Events)
        assert [it.event.value for it in found.events] == [b"2", b"3", b"4"]
        for frames in ((b"REPLAY", b"nobody", b"0", b"0"), (b"HELLO",), (b"",)):
            assert isinstance(await served.answer(*frames), Refusal)


async def test_what_is_no_request_is_refused() -> None:
    async with serving() as served:
        with pynng.Req0() as asker:
            asker.dial(f"tcp://{served.head.address}", block=False)
            await asker.asend(b"\x00\x00\x00\xffshort")

            assert b"invalid" in await asker.arecv()


async def test_who_asks_again_at_once_is_answered_each_time() -> None:
    async with serving() as served:
        at = served.head.address
        reader, writer = await asyncio.open_connection(at.host, at.port)
        writer.write(sp.header(wire.REQ))
        await reader.readexactly(sp.HEADER_BYTES)
        for _ in range(1_000):
            writer.write(wire.request(joined([b"BOUNDS", TOPIC.encode()])))
            (size,) = struct.unpack(">Q", await reader.readexactly(8))
            await reader.readexactly(size)
        writer.close()

        assert served.metric(COMMON.requests, "answered") == 1_000
        assert served.metric(COMMON.requests, "unsent") == 0


async def test_an_empty_message_is_appended_and_an_empty_request_refused() -> None:
    at = f"127.0.0.1:{free_port()}"
    async with serving(pull=f"{TOPIC}={at}") as served:
        with pynng.Push0() as pusher:
            pusher.dial(f"tcp://{at}", block=False)
            for each in (b"", b"x", b""):
                await pusher.asend(each)
            await until(lambda: served.metric(COMMON.collected) == 3)
        assert values(read_all(served.broker, TOPIC)) == [b"", b"x", b""]
        assert isinstance(await served.answer(), Refusal)


async def test_what_programs_push_and_publish_is_appended() -> None:
    ports = free_port(), free_port()
    with pynng.Pub0(listen=f"tcp://127.0.0.1:{ports[1]}") as publisher:
        async with serving(
            pull=f"{TOPIC}=127.0.0.1:{ports[0]}",
            collect=f"{TOPIC}=tcp://127.0.0.1:{ports[1]}#EUR",
        ) as served:
            with pynng.Push0() as pusher:
                pusher.dial(f"tcp://127.0.0.1:{ports[0]}", block=False)
                await pusher.asend(b"pushed")
                await until(lambda: served.metric(COMMON.collected) == 1)
            while served.metric(COMMON.collected) < 2:
                # It is lost until the subscription is there.
                publisher.send(b"USD 1")
                publisher.send(b"EUR 1")
                await asyncio.sleep(0)

            assert set(values(read_all(served.broker, TOPIC))) == {b"pushed", b"EUR 1"}


async def test_workers_share_the_events_of_a_queue_and_none_is_lost_without_one() -> None:
    at = f"127.0.0.1:{free_port()}"
    broker = broker_with_topic()
    broker.queues.create(TOPIC, "workers")
    async with serving(broker, push=f"{TOPIC}/workers={at}") as served:
        broker.publish(TOPIC, [Event(b"%d" % number) for number in range(100)])
        assert served.metric(COMMON.pushed) == 0

        found = list[bytes]()
        with pynng.Pull0() as first, pynng.Pull0() as second:
            for worker in (first, second):
                worker.dial(f"tcp://{at}", block=False)
            while len(found) < 100:
                for worker in (first, second):
                    with contextlib.suppress(pynng.TryAgain):
                        found.append(worker.recv(block=False))
                await asyncio.sleep(0)

        assert sorted(found, key=int) == [b"%d" % number for number in range(100)]
        await until(lambda: not broker.queues.peek(TOPIC, "workers", 1))


async def test_who_may_not_read_the_topics_is_disconnected() -> None:
    async with serving(auth=Auth(authorize=deny_all), topics=TOPIC) as served:
        served.subscriber()

        await until(lambda: served.head.traffic.refused > 0)
        assert not served.head.connections()


async def test_more_connections_than_allowed_are_refused() -> None:
    async with serving(topics=TOPIC, max_connections=1) as served:
        served.subscriber()
        await served.connected()

        served.subscriber()

        await until(lambda: served.head.traffic.refused > 0)
        assert len(served.head.connections()) == 1


async def test_a_message_over_the_limit_cuts_off_its_peer() -> None:
    at = f"127.0.0.1:{free_port()}"
    async with serving(pull=f"{TOPIC}={at}", max_message_bytes=100) as served:
        with pynng.Push0() as pusher:
            pusher.dial(f"tcp://{at}", block=False)
            await pusher.asend(b"x" * 101)
            await until(lambda: served.head.traffic.closed >= 1)
            while not served.metric(COMMON.collected):
                # It may still be sent to the connection that has ended.
                with contextlib.suppress(pynng.TryAgain):
                    pusher.send(b"small", block=False)
                await asyncio.sleep(0)
        assert set(values(read_all(served.broker, TOPIC))) == {b"small"}


async def test_what_is_not_supported_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="epgm"):
        async with serving(collect="orders=epgm://239.1.1.1:5555"):
            pass
    async with serving() as served:
        with pytest.raises(InvalidSetting, match=r"nng\.pull: cannot listen"):
            async with serving(pull=f"{TOPIC}={served.head.address}"):
                pass


@NNGCAT
async def test_nngcat_pushes_and_subscribes() -> None:
    at = f"127.0.0.1:{free_port()}"
    async with serving(topics=TOPIC, pull=f"{TOPIC}={at}") as served:
        subscriber = await asyncio.create_subprocess_exec(
            *("nngcat", "--sub", "--subscribe", "orders/", "--raw", "--recv-timeout", "20"),
            *("--connect", f"tcp://{served.head.publishes_at}"),
            stdout=asyncio.subprocess.PIPE,
        )
        await served.connected()

        pusher = await asyncio.create_subprocess_exec(
            *("nngcat", "--push", "--dial", f"tcp://{at}", "--data", "from nngcat", "--delay", "1")
        )

        assert subscriber.stdout is not None
        assert await subscriber.stdout.readuntil(b"from nngcat")
        subscriber.kill()
        await subscriber.wait()
        await pusher.wait()
        assert values(read_all(served.broker, TOPIC)) == [b"from nngcat"]


async def test_what_pub_drops_for_a_slow_subscriber_is_counted() -> None:
    count, queue = 4_000, 16
    async with serving(topics=TOPIC, queue_length=queue) as served:
        at = served.head.publishes_at
        reader, writer = await asyncio.open_connection(at.host, at.port, limit=4_096)
        writer.write(sp.header(sp.SUB))
        await reader.readexactly(sp.HEADER_BYTES)
        await served.connected()

        events = [Event(bytes(10_000)) for _ in range(count // 8)]
        for _ in range(8):
            served.broker.publish(TOPIC, events)
        await until(lambda: served.metric(COMMON.published) == count and served.metric(DROPPED) > 0)
        # nng drops the oldest of those that wait, so the last one comes.
        received = 0
        while True:
            (size,) = struct.unpack(">Q", await reader.readexactly(8))
            found = decode_whole(await reader.readexactly(size))
            received += 1
            if found.event.offset == count - 1:
                break
        await until(lambda: not served.head._outlet._is_due)
        counted = served.metric(DROPPED)
        writer.close()

        assert count - received - queue - 1 <= counted <= count - received
