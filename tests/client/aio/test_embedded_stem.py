"""The async API behaves as the blocking one, without a thread for each call."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.aio.closed import check_it_stays_closed

import mainstem.aio
from mainstem.aio import Opening
from mainstem.client.aio.embedded_stem import AsyncEmbeddedStem
from mainstem.client.embedded.stem import open_stem
from mainstem.core.errors import Closed, Overloaded, UnknownTopic
from mainstem.core.event import Event, Position

TIMEOUT_S = 30


@pytest.fixture(params=["memory", "disk"])
async def stem(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEmbeddedStem]:
    path = ":memory:" if request.param == "memory" else tmp_path / "data"
    async with mainstem.aio.open(path) as opened:
        yield opened


async def test_an_event_goes_in_and_comes_out(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n", partitions=1)

    position = await stem.publish("n", {"id": 1}, key="k", headers={"a": "b"})

    events = [event async for event in stem.subscribe("n", follow=False)]
    assert position == Position(0, 0)
    assert [(event.json(), event.key) for event in events] == [({"id": 1}, b"k")]


async def test_opening_can_be_awaited(tmp_path: Path) -> None:
    await check_it_stays_closed(await mainstem.aio.open(tmp_path), "n")


@pytest.mark.parametrize("there", [False, True])
async def test_an_opening_that_is_cancelled_lets_go_of_the_directory(
    tmp_path: Path, there: bool
) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def make() -> AsyncEmbeddedStem:
        threads.append(threading.current_thread())
        began.set()
        may_go_on.wait(TIMEOUT_S)
        return AsyncEmbeddedStem(open_stem(tmp_path))

    opening = asyncio.ensure_future(Opening(make).__aenter__())
    await asyncio.to_thread(began.wait, TIMEOUT_S)
    if there:
        may_go_on.set()
        # On the event loop, so that it cannot hear of it before.
        threads[0].join(TIMEOUT_S)

    opening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await opening
    may_go_on.set()
    threads[0].join(TIMEOUT_S)
    async with mainstem.aio.open(tmp_path) as stem:
        await stem.publish("n", "x")


async def test_many_publishes_at_once_share_their_commits(stem: AsyncEmbeddedStem) -> None:
    threads = threading.active_count()

    positions = await asyncio.gather(*(stem.publish("n", number) for number in range(500)))

    assert [position.offset for position in positions] == list(range(500))
    assert threading.active_count() <= threads, "waiting for the disk takes no threads"


async def test_many_events_come_from_either_kind_of_iterable(stem: AsyncEmbeddedStem) -> None:
    async def source() -> AsyncIterator[int]:
        for number in range(1000):
            yield number

    first = await stem.publish_many("n", source())
    second = await stem.publish_many("n", range(1000, 2000))

    seen = [event.json() async for event in stem.subscribe("n", follow=False)]
    assert (first, second) == (1000, 1000)
    assert seen == list(range(2000))


async def test_a_task_at_the_tail_is_woken_by_the_append(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n")
    events = stem.subscribe("n")
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)

    await stem.publish("n", "x")

    event = await asyncio.wait_for(waiting, TIMEOUT_S)
    assert event.text() == "x"


async def test_it_is_woken_by_an_append_from_another_thread(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n")
    events = stem.subscribe("n")
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)

    await asyncio.to_thread(stem.blocking.publish, "n", "x")

    event = await asyncio.wait_for(waiting, TIMEOUT_S)
    assert event.text() == "x"


async def test_a_cancelled_wait_loses_no_event(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n")
    events = stem.subscribe("n", group="g")
    for number in range(50):
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stem.publish("n", number)

        event = await asyncio.wait_for(anext(events), TIMEOUT_S)

        assert event.json() == number


async def test_poll_gives_up_after_its_time(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n")
    events = stem.subscribe("n")

    assert await events.poll(timeout=0.01) is None
    assert await events.poll_many(timeout=0.01) == []

    await stem.publish_many("n", range(10))
    assert len(await events.poll_many(4, timeout=TIMEOUT_S)) == 4
    assert len(await events.poll_many(timeout=TIMEOUT_S)) == 6


async def test_a_group_goes_on_where_it_was(stem: AsyncEmbeddedStem) -> None:
    await stem.publish_many("n", range(6))

    async with stem.subscribe("n", group="g") as events:
        first = [(await anext(events)).json() for _ in range(2)]
    async with stem.subscribe("n", group="g", commit="manual") as events:
        await anext(events)
        await events.commit()
        await anext(events)
    rest = [event.json() async for event in stem.subscribe("n", group="g", follow=False)]

    assert first == [0, 1]
    assert rest == [3, 4, 5]


async def test_members_share_and_breaking_out_leaves_the_group(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n", partitions=2)
    for number in range(10):
        await stem.publish("n", number, partition=number % 2)
    seen = []

    async for event in stem.subscribe("n", group="g"):
        seen.append(event.json())
        if len(seen) == 3:
            break
    seen += [event.json() async for event in stem.subscribe("n", group="g", follow=False)]

    assert sorted(set(seen)) == list(range(10))
    assert len(seen) == 11, "only the event that broke the loop comes again"
    assert (await stem.groups.show("g")).state == "empty"


async def test_a_hot_loop_lets_others_have_their_turn(stem: AsyncEmbeddedStem) -> None:
    await stem.publish_many("n", range(5000))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    count = 0
    async for _ in stem.subscribe("n", follow=False):
        count += 1
    task.cancel()

    assert count == 5000
    assert turns >= 10


async def test_closing_the_stem_ends_the_wait(tmp_path: Path) -> None:
    stem = await mainstem.aio.open(tmp_path)
    await stem.topics.create("n")
    events = stem.subscribe("n", group="g")

    async def read() -> list[Event]:
        return [event async for event in events]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await stem.close()

    assert await asyncio.wait_for(reading, TIMEOUT_S) == []
    with pytest.raises(Closed):
        await events.poll()


async def test_backpressure_holds_the_task_and_not_the_loop(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n", overload="backpressure", max_backlog=1, hold_ms=60_000)
    await stem.groups.seek("g", "n", "earliest")
    await stem.publish("n", 0)
    held = asyncio.create_task(stem.publish("n", 1))
    await asyncio.sleep(0)

    async with stem.subscribe("n", group="g", commit="manual") as events:
        await anext(events)
        await events.commit()

    assert (await asyncio.wait_for(held, TIMEOUT_S)).offset == 1


async def test_what_was_held_too_long_is_refused(stem: AsyncEmbeddedStem) -> None:
    await stem.topics.create("n", overload="backpressure", max_backlog=1, hold_ms=20)
    await stem.groups.seek("g", "n", "earliest")
    await stem.publish("n", 0)

    with pytest.raises(Overloaded):
        await stem.publish("n", 1)


async def test_topics_and_groups_are_looked_after(stem: AsyncEmbeddedStem) -> None:
    await stem.publish_many("n", range(10))
    await stem.groups.seek("g", "n", 4)

    assert [topic.name for topic in await stem.topics.list()] == ["n"]
    assert (await stem.topics.alter("n", partitions=2)).settings.partitions == 2
    assert (await stem.topics.trim("n", 5, partition=0)).events == 5
    assert (await stem.topics.show("n")).events == 5
    assert [group.name for group in await stem.groups.list()] == ["g"]
    await stem.groups.delete("g")
    await stem.topics.delete("n")
    with pytest.raises(UnknownTopic):
        await stem.topics.show("n")
