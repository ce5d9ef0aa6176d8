"""Queues are listed, shown, looked into and deleted from an event loop, by every async stem."""

import pytest

from mainstem import aio
from mainstem.core.errors import UnknownQueue


async def test_queues_are_administered(async_stem: aio.AsyncStem) -> None:
    await async_stem.topics.create("orders", partitions=1)
    await async_stem.publish_many("orders", ["1", "2", "3"])
    async with async_stem.queue("orders", name="emails") as queue:
        delivery = await queue.poll(30)
        assert delivery is not None
        await delivery.ack()

    (listed,) = await async_stem.queues.list()
    shown = await async_stem.queues.show("orders", "emails")
    first, second = await async_stem.queues.peek("orders", "emails")
    (after,) = await async_stem.queues.peek("orders", "emails", 1, after=first.event.position)
    await async_stem.queues.delete("orders", "emails")

    assert (listed.topic, listed.name, listed.ready) == ("orders", "emails", 2)
    assert shown == listed
    assert [first.event.text(), second.event.text()] == ["2", "3"]
    assert after == second
    assert await async_stem.queues.list() == ()
    with pytest.raises(UnknownQueue):
        await async_stem.queues.show("orders", "emails")


async def test_both_stems_are_async_stems(async_stem: aio.AsyncStem) -> None:
    assert isinstance(async_stem, aio.AsyncStem)
    assert isinstance(async_stem.topics, aio.AsyncTopics)
    assert isinstance(async_stem.groups, aio.AsyncGroups)
    assert isinstance(async_stem.queues, aio.AsyncQueues)
