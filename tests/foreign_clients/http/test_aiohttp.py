"""aiohttp, unmodified: publish, read, follow, and talk by WebSocket, also with a queue."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from tests.foreign_clients.compatibility import HTTP
from tests.foreign_clients.http.http_server import EVENTS, EVERY, LINES, NDJSON, STREAM, values
from tests.loop_thread import PATIENCE_S

pytestmark = pytest.mark.client("aiohttp", "3.14", HTTP)


@pytest.mark.shows("publish", "NDJSON", "chunked bodies")
@pytest.mark.shows("read", "from the first event")
@pytest.mark.shows("follow", "Server-Sent Events")
@pytest.mark.shows("WebSocket", "subscribe from a position, publish")
def test_aiohttp_publishes_reads_follows_and_talks_by_websocket(url: str, name: str) -> None:
    path = EVENTS.format(name)

    async def scenario(client: aiohttp.ClientSession) -> None:
        await client.post(path, data=LINES, headers=NDJSON)
        # aiohttp sends what an iterator gives in chunks.
        chunks = (each.encode() for each in ['{"n":', " 3}"])
        await client.post(path, data=_each(chunks), headers={"content-type": "application/json"})
        async with client.get(path) as answer:
            assert values(await answer.json()) == [*EVERY, {"n": 3}]

        async with client.get(f"{path}?from=0:3", headers=STREAM) as stream:
            while not (line := await stream.content.readline()).startswith(b"data: "):
                assert not stream.content.at_eof()
            assert json.loads(line[6:])["value"] == {"n": 3}

        async with client.ws_connect("/ws") as socket:
            await socket.send_json({"do": "subscribe", "id": "s", "topic": name, "from": "0:2"})
            await socket.send_json(
                {"do": "publish", "topic": name, "events": [{"value": 4}], "ref": 1}
            )
            found = [await socket.receive_json() for _ in range(4)]
            shown = [each["event"]["value"] for each in found if each["type"] == "event"]
            assert shown == [{"n": 2}, {"n": 3}, 4]
            (published,) = (each for each in found if each["type"] == "published")
            assert published["positions"] == [{"partition": 0, "offset": 4}]

    _with_aiohttp(url, scenario)


@pytest.mark.shows("publish", "gzip", "cookies, which have no effect")
def test_aiohttp_sends_gzip_and_cookies_and_keeps_its_connection(url: str, name: str) -> None:
    async def scenario(client: aiohttp.ClientSession) -> None:
        for number in range(20):
            async with client.post(
                EVENTS.format(name), json={"n": number}, compress="gzip", cookies={"a": "b"}
            ) as answer:
                assert (await answer.json())["positions"] == [{"partition": 0, "offset": number}]
            async with client.get(f"/topics/{name}.unknown/events") as refused:
                assert (await refused.json())["failure"] == "not_found"

    _with_aiohttp(url, scenario)


@pytest.mark.shows("queues", "over a WebSocket: ack, release")
def test_aiohttp_shares_a_queue_by_websocket(url: str, name: str) -> None:
    async def scenario(client: aiohttp.ClientSession) -> None:
        await client.post(EVENTS.format(name), data=LINES, headers=NDJSON)
        async with client.ws_connect("/ws") as socket:
            await socket.send_json({"do": "subscribe", "id": "q", "topic": name, "queue": "q"})
            taken = [await socket.receive_json() for _ in EVERY]
            for each, action in zip(taken, ["ack", "release", "ack"], strict=True):
                settled = {"do": "settle", "id": "q", "deliveries": [each["delivery"]]}
                await socket.send_json(settled | {"action": action})
            again = await socket.receive_json()
            assert (again["type"], again["event"]["value"]) == ("delivery", EVERY[1])

    _with_aiohttp(url, scenario)


def _with_aiohttp(url: str, scenario: Callable[[aiohttp.ClientSession], Awaitable[None]]) -> None:
    async def whole() -> None:
        timeout = aiohttp.ClientTimeout(PATIENCE_S)
        async with aiohttp.ClientSession(url, timeout=timeout, raise_for_status=False) as client:
            await scenario(client)

    asyncio.run(whole())


async def _each(pieces: Any) -> Any:
    for each in pieces:
        yield each
