"""Queues are listed, shown, looked into and deleted from an event loop, by every async stem."""

from collections.abc import AsyncIterator

import pytest
from tests.in_process_server import serving

from mainstem import aio
from mainstem.core.errors import UnknownQueue


@pytest.fixture(params=["opened", "connected"])
async def stem(request: pytest.FixtureRequest) -> AsyncIterator[aio.AsyncStem]:
    if request.param == "opened":
        async with aio.open(":memory:") as opened:
            yield opened
        return
    with serving(None) as address:
        async with aio.connect(address) as connected:
            yield connected


async def test_queues_are_administered(stem: aio.AsyncStem) -> None:
    await stem.topics.create("orders", partitions=1)
    await stem.publish_many("orders", ["1", "2", "3"])
    async with stem.queue("orders", name="emails") as queue:
        delivery = await queue.poll(30)
        assert delivery is not None
        await delivery.ack()

    (listed,) = await stem.queues.list()
    shown = await stem.queues.show("orders", "emails")
    first, second = await stem.queues.peek("orders", "emails")
    (after,) = await stem.queues.peek("orders", "emails", 1, after=first.event.position)
    await stem.queues.delete("orders", "emails")

    assert (listed.topic, listed.name, listed.ready) == ("orders", "emails", 2)
    assert shown == listed
    assert [first.event.text(), second.event.text()] == ["2", "3"]
    assert after == second
    assert await stem.queues.list() == ()
    with pytest.raises(UnknownQueue):
        await stem.queues.show("orders", "emails")


async def test_both_stems_are_async_stems(stem: aio.AsyncStem) -> None:
    assert isinstance(stem, aio.AsyncStem)
    assert isinstance(stem.topics, aio.AsyncTopics)
    assert isinstance(stem.groups, aio.AsyncGroups)
    assert isinstance(stem.queues, aio.AsyncQueues)
