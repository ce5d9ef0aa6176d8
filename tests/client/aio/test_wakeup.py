"""Waking an event loop from other threads."""

import asyncio
import threading

import pytest

from mainstem.client.aio.wakeup import Wakeup, until_durable
from mainstem.core.errors import StorageFailed
from mainstem.log.commit.durable import AT_ONCE, Commit


async def test_a_promise_kept_at_once_needs_no_wait() -> None:
    await until_durable(AT_ONCE)


async def test_a_promise_is_awaited_until_another_thread_keeps_it() -> None:
    commit = Commit()
    waiting = asyncio.create_task(until_durable(commit))
    await asyncio.sleep(0)
    assert not waiting.done()

    threading.Thread(target=commit.settle).start()

    await asyncio.wait_for(waiting, 30)


@pytest.mark.parametrize("early", [True, False])
async def test_a_promise_that_is_broken_raises(early: bool) -> None:
    commit = Commit()
    if early:
        commit.settle(StorageFailed("the disk is gone"))
    waiting = asyncio.create_task(until_durable(commit))
    await asyncio.sleep(0)

    commit.settle(StorageFailed("the disk is gone"))

    with pytest.raises(StorageFailed, match="the disk is gone"):
        await waiting


async def test_a_wait_that_took_too_long_returns_and_a_cancelled_one_does_no_harm() -> None:
    commit = Commit()

    await until_durable(commit, timeout_s=0.01)
    waiting = asyncio.create_task(until_durable(commit))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    commit.settle()
    await until_durable(commit)


def test_who_brings_news_to_a_loop_that_is_gone_does_not_suffer() -> None:
    commit, wakeup = Commit(), Wakeup()
    wakeup.wake()

    async def leave() -> None:
        wakeup.arm()
        await until_durable(commit, timeout_s=0)

    asyncio.run(leave())

    wakeup.wake()
    commit.settle()
