"""``mainstem.aio.connect`` does on an event loop what ``mainstem.connect`` does."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import pytest
from tests.client.aio.closed import check_it_stays_closed

import mainstem.aio
from mainstem.client.aio.connected_stem import AsyncConnectedStem
from mainstem.client.aio.connected_subscription import AsyncConnectedSubscription
from mainstem.client.connected.subscription import ConnectedSubscription
from mainstem.core.errors import Closed, UnknownTopic
from mainstem.core.event import Event

TIMEOUT_S = 30


@pytest.fixture
async def stem(kafka: str) -> AsyncIterator[AsyncConnectedStem]:
    async with mainstem.aio.connect(kafka) as connected:
        yield connected


@pytest.fixture
async def topic(stem: AsyncConnectedStem, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, named after the test."""
    name: str = request.node.name
    await stem.topics.create(name, partitions=1)
    return name


def numbers(events: list[Event]) -> list[int]:
    return [event.json() for event in events]


async def test_an_event_goes_in_and_comes_out(stem: AsyncConnectedStem, topic: str) -> None:
    position = await stem.publish(topic, {"id": 1}, key="k", headers={"a": "b"})

    (event,) = [event async for event in stem.subscribe(topic, follow=False)]

    assert position.offset == 0
    assert (event.json(), event.key, event.headers) == ({"id": 1}, b"k", (("a", b"b"),))


async def test_connecting_can_be_awaited_and_what_is_closed_stays_so(kafka: str) -> None:
    await check_it_stays_closed(await mainstem.aio.connect(kafka), "awaited")


async def test_events_published_at_once_keep_the_order_of_the_calls(
    stem: AsyncConnectedStem, topic: str
) -> None:
    positions = await asyncio.gather(*(stem.publish(topic, number) for number in range(300)))

    assert [position.offset for position in positions] == list(range(300))
    events = [event async for event in stem.subscribe(topic, follow=False)]
    assert numbers(events) == list(range(300))


async def test_many_events_come_from_either_kind_of_iterable(
    stem: AsyncConnectedStem, topic: str
) -> None:
    async def source() -> AsyncIterator[int]:
        for number in range(1000):
            yield number

    first = await stem.publish_many(topic, source())
    second = await stem.publish_many(topic, range(1000, 2000))

    assert (first, second) == (1000, 1000)
    assert (await stem.topics.show(topic)).events == 2000


async def test_who_waits_at_the_tail_is_woken(stem: AsyncConnectedStem, topic: str) -> None:
    async with stem.subscribe(topic) as subscription:
        waiting = asyncio.create_task(subscription.poll(TIMEOUT_S))
        await stem.publish(topic, 7)

        event = await waiting

    assert event is not None
    assert event.json() == 7


async def test_a_group_goes_on_where_it_was(stem: AsyncConnectedStem, topic: str) -> None:
    await stem.publish_many(topic, range(10))
    async with stem.subscribe(topic, group=topic) as subscription:
        first = [await anext(subscription) for _ in range(4)]

    async with stem.subscribe(topic, group=topic, follow=False) as subscription:
        rest = [event async for event in subscription]

    assert numbers(first) == [0, 1, 2, 3]
    assert numbers(rest) == list(range(4, 10))
    assert (await stem.groups.show(topic)).lag == 0


async def test_an_error_gives_the_last_event_back(stem: AsyncConnectedStem, topic: str) -> None:
    await stem.publish_many(topic, range(3))

    async def fail_at_the_second() -> None:
        async with stem.subscribe(topic, group=topic) as subscription:
            for _ in range(2):
                await anext(subscription)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_the_second()

    async with stem.subscribe(topic, group=topic, follow=False) as subscription:
        assert numbers([event async for event in subscription]) == [1, 2]


async def test_cursors_can_be_committed_by_hand(stem: AsyncConnectedStem, topic: str) -> None:
    await stem.publish_many(topic, range(5))
    async with stem.subscribe(topic, group=topic, commit="manual") as subscription:
        taken = await subscription.poll_many(2, TIMEOUT_S)
        await subscription.commit()
        await anext(subscription)

    (lag,) = (await stem.groups.show(topic)).lags
    assert lag.cursor == len(taken)


async def test_a_task_that_is_cancelled_loses_no_event(
    stem: AsyncConnectedStem, topic: str
) -> None:
    async with stem.subscribe(topic, group=topic) as subscription:
        waiting = asyncio.create_task(subscription.poll())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stem.publish_many(topic, range(3))

        found = [await asyncio.wait_for(anext(subscription), TIMEOUT_S) for _ in range(3)]

    assert numbers(found) == [0, 1, 2]


async def test_what_a_cancelled_task_did_not_get_is_not_committed(
    stem: AsyncConnectedStem, topic: str
) -> None:
    await stem.publish(topic, 0)
    async with stem.subscribe(topic, group=topic, commit="manual") as subscription:
        assert await subscription.poll(TIMEOUT_S)
        held = 0
        while not held:
            # Until what the server has is there together, and has been taken for nobody.
            waiting = asyncio.create_task(subscription.poll_many(10))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await stem.publish_many(topic, [1, 2])
            await subscription.commit()
            held = len(subscription._unreturned())

        (lag,) = (await stem.groups.show(topic)).lags
        assert lag.cursor == 1
        assert await subscription.poll(TIMEOUT_S)
        await subscription.commit()

        (lag,) = (await stem.groups.show(topic)).lags
        assert lag.cursor == 2


async def test_what_is_closed_while_it_is_made_leaves_the_group(
    stem: AsyncConnectedStem, topic: str
) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    made: list[ConnectedSubscription] = []

    def make() -> ConnectedSubscription:
        began.set()
        may_go_on.wait(TIMEOUT_S)
        made.append(stem.blocking.subscribe(topic, group=topic))
        return made[0]

    subscription = AsyncConnectedSubscription(make, has_cursors=True)
    waiting = asyncio.create_task(subscription.poll())
    await asyncio.to_thread(began.wait, TIMEOUT_S)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    closing = asyncio.create_task(subscription.close())
    await asyncio.sleep(0)
    may_go_on.set()
    await closing

    assert [each.feed.closed for each in made] == [True]


async def test_a_topic_that_is_not_there_is_refused_at_the_first_event(
    stem: AsyncConnectedStem,
) -> None:
    with pytest.raises(UnknownTopic):
        await anext(stem.subscribe("nowhere", follow=False))


async def test_nothing_in_time_is_none(stem: AsyncConnectedStem, topic: str) -> None:
    async with stem.subscribe(topic) as subscription:
        assert await subscription.poll(0) is None
        assert await subscription.poll_many(10, 0) == []


async def test_a_closed_subscription_says_so(stem: AsyncConnectedStem, topic: str) -> None:
    subscription = stem.subscribe(topic)
    await subscription.close()

    with pytest.raises(Closed):
        await subscription.poll(0)
    assert [event async for event in subscription] == []


def test_a_program_that_forgets_to_close_ends(kafka: str) -> None:
    program = f"""
import asyncio, mainstem.aio

async def main():
    stem = await mainstem.aio.connect("{kafka}")
    await stem.publish("forgotten", "x")
    subscription = stem.subscribe("forgotten", group="forgetful")
    print((await anext(subscription)).text())
    try:
        await asyncio.wait_for(anext(subscription), 0.01)
    except TimeoutError:
        pass

asyncio.run(main())
"""

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")
