"""Queues on an event loop."""

import asyncio

import pytest

from mainstem import aio
from mainstem.core.errors import Closed, InvalidSetting, StaleDelivery

PATIENCE_S = 30


def test_who_waits_gets_what_is_published_and_what_is_given_back() -> None:
    async def work() -> list[int]:
        async with aio.open(":memory:") as stem:
            one, other = (stem.queue("orders", name="emails") for _ in range(2))
            waiting = asyncio.ensure_future(one.poll(PATIENCE_S))
            await asyncio.sleep(0)
            await stem.publish("orders", "1")
            first = await waiting
            assert first is not None
            waiting = asyncio.ensure_future(other.poll(PATIENCE_S))
            await asyncio.sleep(0)
            await first.nack()
            again = await waiting
            assert again is not None
            again.renew()
            await other.ack_many([again])
            return [first.count, again.count]

    assert asyncio.run(work()) == [1, 2]


def test_closing_gives_back_and_ends_the_loop() -> None:
    async def work() -> None:
        async with aio.open(":memory:") as stem:
            await stem.publish("orders", "1")
            queue = stem.queue("orders", name="emails", max_deliveries=1)
            (taken,) = await queue.poll_many(timeout=0)
            ended = asyncio.ensure_future(anext(queue, None))
            await asyncio.sleep(0)
            await queue.close()

            assert await ended is None
            with pytest.raises(Closed):
                await taken.release()
            async with stem.queue("orders", name="emails") as other:
                again = await other.poll(timeout=0)
                assert again is not None
                assert again.count == 1
                await again.reject("never")

    asyncio.run(work())


def test_only_deliveries_that_are_out_here_are_acked_together() -> None:
    async def work() -> None:
        async with aio.open(":memory:") as stem:
            await stem.publish("orders", "1")
            one, other = (stem.queue("orders", name="emails") for _ in range(2))
            (late,) = await one.poll_many(timeout=0)
            await late.nack()
            (again,) = await one.poll_many(timeout=0)

            with pytest.raises(InvalidSetting, match="limit"):
                await one.poll_many(0)
            with pytest.raises(StaleDelivery):
                await one.ack_many([late])
            with pytest.raises(InvalidSetting, match="none of these"):
                await other.ack_many([again])
            async with again:
                await one.ack_many([again])

    asyncio.run(work())
