"""Parked requests: woken from any thread, ended exactly once, for one reason."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable

import pytest
from tests.broker.brokers import new_broker
from tests.heads.contexts import context_on

from mainstem.heads.context import HeadContext
from mainstem.heads.parked import Over

HOUR_MS = 3_600_000


class Waiting:
    """A request that waits, and what it was told."""

    def __init__(self, context: HeadContext, wait_ms: int = HOUR_MS) -> None:
        self.context = context
        self.peer: set[Callable[[], None]] = set()
        self.looks = 0
        self.over: list[tuple[Over, int]] = []
        """Why it was over, and how many watches had not been taken back by then."""
        self.watched = {"one", "two"}
        self.parked = context.park(self.peer, wait_ms, self._over, self._look)
        for name in list(self.watched):
            self.parked.watches[name] = lambda name=name: self.watched.remove(name)  # type: ignore[misc]

    def _look(self) -> None:
        self.looks += 1

    def _over(self, why: Over) -> None:
        self.over.append((why, len(self.watched)))

    def is_forgotten(self) -> bool:
        """Tell whether nobody knows of it any more."""
        return not self.peer and not self.context.parked and not self.watched


@pytest.fixture
async def context() -> HeadContext:
    return context_on(new_broker(), lambda: 0)


async def _turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_it_looks_once_however_many_threads_wake_it(context: HeadContext) -> None:
    wait = Waiting(context)
    threads = [threading.Thread(target=wait.parked.wake) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wait.looks == 0

    await _turns()

    assert wait.looks == 1


async def test_it_looks_again_when_it_is_woken_again(context: HeadContext) -> None:
    wait = Waiting(context)
    for _ in range(3):
        wait.parked.wake()
        await _turns()

    assert wait.looks == 3


async def test_it_is_over_when_its_time_is_up(context: HeadContext) -> None:
    wait = Waiting(context, 0)
    later = asyncio.Event()
    context.after(1, later.set)
    await later.wait()

    assert wait.over == [(Over.TIME, 0)]
    assert wait.is_forgotten()


async def test_it_is_over_when_its_peer_has_gone(context: HeadContext) -> None:
    wait = Waiting(context)
    (gone,) = wait.peer

    gone()

    assert wait.over == [(Over.PEER, 0)]
    assert wait.is_forgotten()


async def test_it_is_over_when_the_server_stops(context: HeadContext) -> None:
    wait = Waiting(context)

    context.drain()

    assert wait.over == [(Over.DRAINING, 0)]
    assert wait.is_forgotten()


@pytest.mark.parametrize("first", ["end", "drain", "gone"])
async def test_it_ends_once(context: HeadContext, first: str) -> None:
    wait = Waiting(context, 0)
    (gone,) = wait.peer
    ends = {"end": wait.parked.end, "drain": context.drain, "gone": gone}

    wait.parked.wake()
    ends[first]()
    told = len(wait.over)
    for end in ends.values():
        end()
    wait.parked.wake()
    later = asyncio.Event()
    context.after(1, later.set)
    await later.wait()

    assert told == (0 if first == "end" else 1)
    assert len(wait.over) == told
    assert wait.looks == 0
    assert wait.is_forgotten()


async def test_what_has_ended_is_not_kept_by_those_who_could_wake_it(context: HeadContext) -> None:
    wait = Waiting(context)
    kept, known = weakref.ref(wait), [wait.parked.wake]

    wait.parked.end()
    del wait
    gc.collect()

    assert kept() is None
    known.pop()()


async def test_one_that_ends_while_it_looks_is_not_over_as_well(context: HeadContext) -> None:
    over: list[Over] = []

    def look() -> None:
        parked.end()

    parked = context.park(set(), HOUR_MS, over.append, look)
    parked.wake()
    await _turns()
    context.drain()

    assert over == []
