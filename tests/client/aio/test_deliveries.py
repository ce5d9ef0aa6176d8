"""Deliveries of queues on an event loop, by every async stem."""

import pytest

from mainstem import aio


async def test_deliveries_ack_themselves_and_come_again_after_an_error(
    async_stem: aio.AsyncStem,
) -> None:
    got = []
    await async_stem.topics.create("orders", partitions=1)
    for value in ("1", "2"):
        await async_stem.publish("orders", value)

    async for delivery in async_stem.queue("orders", name="emails", follow=False):
        got.append((delivery.event.text(), delivery.count))
        if delivery.count == 1:
            with pytest.raises(ValueError, match="no"):
                async with delivery:
                    raise ValueError("no")
        else:
            async with delivery as event:
                assert event == delivery.event

    assert got == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]


async def test_what_nobody_waits_for_is_settled_once_the_queue_is_closed(
    async_stem: aio.AsyncStem,
) -> None:
    await async_stem.topics.create("orders", partitions=1)
    await async_stem.publish_many("orders", map(str, range(150)))

    async with async_stem.queue("orders", name="emails", follow=False) as queue:
        async for delivery in queue:
            await delivery.ack(wait=False)

    again = [each async for each in async_stem.queue("orders", name="emails", follow=False)]
    assert again == []
