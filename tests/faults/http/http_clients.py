"""HTTP clients that begin again after every cut: publishers, followers, consumers of a queue.

They go on where the protocol says: a publisher repeats its ``Idempotency-Key``, an SSE client sends
the last id, a WebSocket subscribes from the last position. Each keeps what it has seen.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx
from tests.heads.http import sockets, sse
from websockets.exceptions import WebSocketException

TOPIC, QUEUE = "orders", "workers"
EVENTS = f"/topics/{TOPIC}/events"
CUT = (OSError, EOFError, TimeoutError, httpx.HTTPError, WebSocketException)
"""What a client sees of a cut, a kill, or a server that is away."""
PATIENCE_S = 60
_TRY_S = 2.0
"""How long a client waits for an answer that may have been lost."""


class Seen(NamedTuple):
    """An event as a client has received it."""

    partition: int
    offset: int
    number: int


class Follower:
    """A client that follows the topic by Server-Sent Events or by WebSocket."""

    def __init__(self, address: str, seed: int) -> None:
        self.seen: list[Seen] = []
        self.lives = 0
        """How often it has connected."""
        self._address, self._chance = address, random.Random(seed)
        self._place = ""

    async def by_stream(self) -> None:
        """Follow by Server-Sent Events; hang up itself now and then."""
        async with _client(self._address) as client:
            while True:
                resume = {"last-event-id": self._place} if self._place else {}
                with contextlib.suppress(*CUT):
                    async with sse.following(client, f"{EVENTS}?from=earliest", resume) as stream:
                        self.lives += 1
                        await self._read(stream)

    async def _read(self, stream: sse.Stream) -> None:
        left = self._chance.randint(1, 200)
        async for block in stream.blocks():
            if block.data:
                assert block.event == "message", block
                self._see(json.loads(block.data))
                left -= 1
            # Only a block that is whole counts [HTML Living Standard, 9.2.6].
            self._place = block.id
            if not left:
                return

    async def by_websocket(self) -> None:
        """Follow by WebSocket."""
        while True:
            with contextlib.suppress(*CUT):
                async with sockets.connected(self._address) as socket:
                    self.lives += 1
                    start = self._place or "earliest"
                    await socket.send(do="subscribe", id="s", topic=TOPIC, from_=start, credit=50)
                    while True:
                        said = await socket.take()
                        assert said["type"] == "event", said
                        self._see(said["event"])
                        self._place = said["position"]
                        await socket.send(do="credit", id="s", credit=1)

    def _see(self, event: dict[str, object]) -> None:
        partition, offset, number = (event[name] for name in ("partition", "offset", "value"))
        assert isinstance(partition, int)
        assert isinstance(offset, int)
        assert isinstance(number, int)
        self.seen.append(Seen(partition, offset, number))


class Consumer:
    """A consumer of the queue by WebSocket; an ack counts once it is confirmed."""

    def __init__(self, address: str) -> None:
        self.acked: list[int] = []
        self.taken: set[int] = set()
        """All that was delivered."""
        self.after_ack: list[int] = []
        """Events that came again after their ack was confirmed."""
        self._address = address

    async def run(self) -> None:
        while True:
            with contextlib.suppress(*CUT):
                async with sockets.connected(self._address) as socket:
                    await socket.send(do="subscribe", id="q", topic=TOPIC, queue=QUEUE, credit=5)
                    while True:
                        said = await socket.take()
                        assert said["type"] == "delivery", said
                        number = said["event"]["value"]
                        if number in self.acked:
                            self.after_ack.append(number)
                        self.taken.add(number)
                        asked = {"id": "q", "deliveries": [said["delivery"]]}
                        assert (await socket.ask(do="settle", **asked))["type"] == "done"
                        self.acked.append(number)


async def publish(address: str, numbers: range, done: Callable[[], None]) -> None:
    """Publish numbers one by one, each until it is answered."""
    async with _client(address) as client:
        for number in numbers:
            key = {"idempotency-key": str(number)}
            await until_answered(
                lambda number=number, key=key: client.post(  # type: ignore[misc]
                    f"{EVENTS}?key=k{number % 7}", json=number, headers=key
                )
            )
            done()


async def until_answered(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Repeat a request until it is answered."""
    while True:
        with contextlib.suppress(*CUT):
            answer = await asyncio.wait_for(ask(), _TRY_S)
            answer.raise_for_status()
            return answer
        await asyncio.sleep(0)


def _client(address: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE_S, trust_env=False)
