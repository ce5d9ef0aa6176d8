"""Clients of the HTTP head while connections are cut, answers are lost, and the server is killed.

Nothing that was published is lost or stored twice, and no follower misses an event or gets one
twice. An event of a queue whose ack was confirmed never comes again.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from signal import SIGKILL
from typing import Any

import httpx
import pytest
from tests.checker.proxy import Proxy
from tests.faults.http.http_clients import (
    PATIENCE_S,
    QUEUE,
    TOPIC,
    Consumer,
    Follower,
    Seen,
    publish,
)
from tests.faults.killable_server import free_port
from tests.heads.server_process import Process
from tests.long_runs import LONG, seeds

COUNT = 4_000 if LONG else 300
FAULTS = 60 if LONG else 6
PARTITIONS = 3
EVERY = range(COUNT)


class Server:
    """A server that can be killed, and comes back at the same address."""

    def __init__(self, path: Path) -> None:
        self.port = free_port()
        self._path = path
        self._process = self._start()

    def _start(self) -> Process:
        return Process(self._path, partitions=PARTITIONS, http__listen=f"127.0.0.1:{self.port}")

    def restart(self) -> None:
        """Kill it (kill -9), and start it again."""
        self.kill()
        self._process = self._start()

    def kill(self) -> None:
        self._process.tell(SIGKILL)
        self._process.wait()


class Progress:
    """How many events are published, for whoever waits for more."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Condition()
        self._telling: set[asyncio.Task[None]] = set()

    def add(self) -> None:
        self.count += 1
        task = asyncio.create_task(self._tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        async with self._more:
            self._more.notify_all()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._more:
            await self._more.wait_for(lambda: self.count >= count)


@pytest.mark.timeout(0 if LONG else 240)
@pytest.mark.parametrize("seed", seeds(1, 1, 10))
def test_cuts_lost_answers_and_kills_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    server = Server(tmp_path)
    try:
        with Proxy() as network:
            network.target = server.port
            asyncio.run(_run(server, network, seed))
    finally:
        server.kill()


async def _run(server: Server, network: Proxy, seed: int) -> None:
    at = network.address
    direct = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=direct, timeout=PATIENCE_S, trust_env=False) as client:
        # The topic with its partitions, and the queue from its start on.
        created = await client.put(f"/topics/{TOPIC}/queues/{QUEUE}")
        assert created.status_code == 201, created.text
    streams = [Follower(at, seed * 100 + each) for each in range(3)]
    sockets = [Follower(at, seed) for _ in range(2)]
    consumers = [Consumer(at) for _ in range(2)]
    progress = Progress()
    async with _running(
        *(each.by_stream() for each in streams),
        *(each.by_websocket() for each in sockets),
        *(each.run() for each in consumers),
    ) as check:
        publishers = asyncio.gather(
            *(publish(at, EVERY[first::2], progress.add) for first in range(2))
        )
        await _misbehave(server, network, progress, random.Random(seed))
        await publishers

        followers = [*streams, *sockets]
        await _until(lambda: all(len(each.seen) >= COUNT for each in followers), check)
        await _until(lambda: _is_settled(direct), check)
    for follower in followers:
        _check(follower.seen)
        assert follower.lives > FAULTS // 2
    assert [number for each in consumers for number in each.after_ack] == []
    assert {number for each in consumers for number in each.taken} == set(EVERY)


def _is_settled(url: str) -> bool:
    """Tell whether every event of the queue is settled."""
    path = f"/topics/{TOPIC}/queues/{QUEUE}"
    found = httpx.get(url + path, timeout=PATIENCE_S, trust_env=False).json()["windows"]
    return all(each["start"] == each["tail"] for each in found)


def _check(seen: list[Seen]) -> None:
    """Check that every event was stored once, and seen once, in the order of its partition."""
    assert sorted(each.number for each in seen) == list(EVERY)
    for partition in range(PARTITIONS):
        own = [each.offset for each in seen if each.partition == partition]
        assert own == sorted(set(own))


async def _misbehave(
    server: Server, network: Proxy, progress: Progress, chance: random.Random
) -> None:
    for number in range(FAULTS):
        most = COUNT * (number + 1) // (FAULTS + 1)
        await progress.reach(chance.randint(progress.count, max(progress.count, most)))
        match number % 3:
            case 0:
                network.heal()
            case 1:
                network.mute()
                await asyncio.to_thread(network.wait_until_swallowed)
                network.heal()
            case _:
                await asyncio.to_thread(server.restart)


@contextlib.asynccontextmanager
async def _running(*clients: Coroutine[Any, Any, None]) -> Any:
    """Run clients until the block ends; gives what raises the error of one that has failed."""
    tasks = [asyncio.create_task(each) for each in clients]

    def check() -> None:
        for task in tasks:
            if task.done():
                task.result()

    try:
        yield check
        check()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until(condition: Callable[[], bool], check: Callable[[], None]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            check()
            await asyncio.sleep(0.01)
