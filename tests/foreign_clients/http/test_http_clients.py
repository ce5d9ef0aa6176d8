"""httpx, aiohttp and curl, unmodified: publish, read, follow, and share events by a queue."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import pytest
from tests.foreign_clients.http.http_server import CONFIG, EVENTS

from mainstem.node.config import Config
from mainstem.node.server import Running

CURL = shutil.which("curl")
PATIENCE_S = 60
EVERY = [{"n": number} for number in range(3)]
LINES = "".join(json.dumps(each) + "\n" for each in EVERY)
NDJSON = {"content-type": "application/x-ndjson"}
STREAM = {"accept": "text/event-stream"}


@pytest.fixture(name="config", scope="module")
def _config() -> Config:
    return CONFIG


@pytest.fixture
def url(running: Running) -> str:
    return f"http://{running.addresses['http']}"


def values(read: dict[str, Any]) -> list[Any]:
    return [each["value"] for each in read["events"]]


def test_httpx_publishes_reads_and_follows(url: str, name: str) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
        path = EVENTS.format(name)

        answer = client.post(path, content=LINES, headers=NDJSON)
        assert [each["offset"] for each in answer.json()["positions"]] == [0, 1, 2]
        files = [("a", ("a.json", b'{"n": 3}', "application/json"))]
        client.post(path, files=files).raise_for_status()

        read = client.get(path, params={"from": "0:1", "filter": "value.n>=2"}).json()
        assert (values(read), read["next"]) == ([{"n": 2}, {"n": 3}], "0:4")
        with client.stream("GET", f"{path}?from=earliest", headers=STREAM) as stream:
            data = (each[6:] for each in stream.iter_lines() if each.startswith("data: "))
            assert [json.loads(next(data))["value"] for _ in range(4)] == [*EVERY, {"n": 3}]


def test_httpx_shares_a_queue(url: str, name: str) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
        client.post(EVENTS.format(name), content=LINES, headers=NDJSON).raise_for_status()
        queue = f"/topics/{name}/queues/workers"

        taken = client.post(f"{queue}/leases?limit=3").json()["deliveries"]
        for each, action in zip(taken, ["ack", "release", "ack"], strict=True):
            at = f"{queue}/deliveries/{each['delivery']}/{action}"
            assert client.post(at).status_code == 204

        again = client.post(f"{queue}/leases?limit=3").json()["deliveries"]
        assert [each["event"]["value"] for each in again] == [{"n": 1}]


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


@pytest.mark.skipif(CURL is None, reason="curl is missing: apt-get install curl")
def test_curl_publishes_reads_and_follows(url: str, name: str) -> None:
    path = f"{url}{EVENTS.format(name)}"
    json_type = ("-H", "Content-Type: application/json")

    # With "Expect: 100-continue" curl waits for the server's consent before it sends the body.
    curl(path, *json_type, "-H", "Expect: 100-continue", "--data-binary", '{"n": 0}')
    curl(path, "-H", "Content-Type: application/x-ndjson", "--data-binary", "@-", given=LINES)
    curl(path, *json_type, "-H", "Transfer-Encoding: chunked", "--data-binary", '{"n": 9}')
    curl(path, "-F", "a={};type=application/json")

    found = values(json.loads(curl(path, "--compressed")))
    assert found == [{"n": 0}, *EVERY, {"n": 9}, {}]
    # curl asks whether the server speaks HTTP/2, and goes on without.
    assert values(json.loads(curl(f"{path}?from=0:5", "--http2"))) == [{}]
    assert curl(path, "-I").startswith("HTTP/1.1 200")


@pytest.mark.skipif(CURL is None, reason="curl is missing: apt-get install curl")
def test_curl_follows_a_topic_until_it_is_stopped(url: str, name: str) -> None:
    path = f"{url}{EVENTS.format(name)}"
    curl(path, "-H", "Content-Type: application/x-ndjson", "--data-binary", "@-", given=LINES)

    with subprocess.Popen(
        [str(CURL), "-sN", f"{path}?from=earliest", "-H", "Accept: text/event-stream"],
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        data = (each[6:] for each in running.stdout if each.startswith("data: "))
        found = [json.loads(next(data))["value"] for _ in EVERY]
        running.terminate()

    assert found == EVERY


def curl(*arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [str(CURL), "-sS", "--fail", "--noproxy", "*", "--max-time", str(PATIENCE_S), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _with_aiohttp(url: str, scenario: Callable[[aiohttp.ClientSession], Awaitable[None]]) -> None:
    async def whole() -> None:
        timeout = aiohttp.ClientTimeout(PATIENCE_S)
        async with aiohttp.ClientSession(url, timeout=timeout, raise_for_status=False) as client:
            await scenario(client)

    asyncio.run(whole())


async def _each(pieces: Any) -> Any:
    for each in pieces:
        yield each
