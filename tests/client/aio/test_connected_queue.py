"""Queues over the network, on an event loop."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.in_process_server import serving

from mainstem import aio
from mainstem.client.aio.connected_queue import AsyncConnectedDelivery, AsyncConnectedQueue
from mainstem.client.aio.connected_stem import AsyncConnectedStem
from mainstem.core.errors import (
    Closed,
    InvalidSetting,
    StaleDelivery,
    UnknownTopic,
    Unsupported,
)

PATIENCE_S = 30


@pytest.fixture
def address() -> Iterator[str]:
    with serving(None) as found:
        yield found


async def one(queue: AsyncConnectedQueue) -> AsyncConnectedDelivery:
    found = await queue.poll(PATIENCE_S)
    assert found is not None
    return found


async def publish(stem: AsyncConnectedStem, *values: str) -> None:
    await stem.topics.create("orders", partitions=1, exist_ok=True)
    for value in values:
        await stem.publish("orders", value)


def test_a_poll_that_is_cancelled_loses_no_event(address: str) -> None:
    async def work() -> tuple[str, int]:
        async with (
            aio.connect(address) as stem,
            aio.connect(address) as other,
        ):
            await publish(stem, "0")
            async with stem.queue("orders", name="emails") as queue:
                # It has joined then, so that the thread is still there when the next event comes.
                await (await one(queue)).ack()
                waiting = asyncio.ensure_future(queue.poll())
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await other.publish("orders", "1")
                found = await one(queue)
                await found.ack()
        return found.event.text(), found.count

    assert asyncio.run(work()) == ("1", 1)


def test_a_queue_that_is_entered_begins_there(address: str) -> None:
    async def work() -> str:
        async with aio.connect(address) as stem:
            await publish(stem, "before")
            async with stem.queue("orders", name="emails", start="latest") as queue:
                await stem.publish("orders", "after")
                return (await one(queue)).event.text()

    assert asyncio.run(work()) == "after"


def test_closing_ends_the_loop_and_gives_back(address: str) -> None:
    async def work() -> None:
        async with aio.connect(address) as stem:
            await publish(stem, "1")
            queue = stem.queue("orders", name="emails")
            held = await one(queue)
            ended = asyncio.ensure_future(anext(queue, None))
            await asyncio.sleep(0)
            await queue.close()
            await queue.close()

            assert await ended is None
            for late in (held.ack, held.release, queue.poll):
                with pytest.raises(Closed):
                    await late()
            async with stem.queue("orders", name="emails") as other:
                again = await one(other)
                assert again.count == 2
                await again.reject("never")
                assert await other.poll(timeout=0) is None

    asyncio.run(work())


def test_closing_the_stem_ends_the_loop(address: str) -> None:
    async def work() -> None:
        async with aio.connect(address) as stem:
            await publish(stem)
            queue = stem.queue("orders", name="emails")
            assert await queue.poll(timeout=0) is None

        assert [each async for each in queue] == []
        with pytest.raises(Closed, match="connect again"):
            await queue.poll()

    asyncio.run(work())


def test_many_are_acked_together_if_they_are_out_here(address: str) -> None:
    async def work() -> int:
        async with aio.connect(address) as stem:
            await publish(stem, "1", "2", "3")
            one_queue, other = (stem.queue("orders", name="emails") for _ in range(2))
            given = [await one(one_queue) for _ in range(3)]

            with pytest.raises(InvalidSetting, match="limit"):
                await one_queue.poll_many(0)
            with pytest.raises(InvalidSetting, match="none of these"):
                await other.ack_many(given)
            with pytest.raises(InvalidSetting, match="only deliveries"):
                await one_queue.ack_many([object()])  # type: ignore[list-item]
            await one_queue.ack_many(given)
            with pytest.raises(StaleDelivery):
                await one_queue.ack_many(given)
            return stem.blocking.queues.show("orders", "emails").ready

    assert asyncio.run(work()) == 0


def test_what_the_server_refuses_is_raised_by_who_asks_first(address: str) -> None:
    async def work() -> None:
        async with aio.connect(address) as stem:
            with pytest.raises(UnknownTopic):
                await stem.queue("nothing", name="emails").poll()
            with pytest.raises(UnknownTopic):
                async with stem.queue("nothing", name="emails"):
                    pass
            await publish(stem, "1")
            async with stem.queue("orders", name="emails") as queue:
                (held,) = await queue.poll_many(timeout=PATIENCE_S)
                with pytest.raises(Unsupported, match="lock_s"):
                    held.renew()
                with pytest.raises(Unsupported, match="delay_s"):
                    await held.nack(delay_s=1)
                await held.nack()
                assert (await one(queue)).count == 2

    asyncio.run(work())
