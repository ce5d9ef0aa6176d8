"""The HTTP client of webhooks, over real sockets: what it sends, and where it refuses to go."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web
from tests.heads.webhooks.receiver import answer, receiving
from tests.heads.webhooks.served import serving
from yarl import URL

from mainstem.core.errors import Unsupported
from mainstem.heads.webhooks.addresses import AllowedAddresses, parse_networks
from mainstem.heads.webhooks.client import Client, Request
from mainstem.heads.webhooks.schedule import Answer

LOOPBACK = "127.0.0.0/8,::1/128"


@contextlib.asynccontextmanager
async def client(allowed: str = LOOPBACK) -> AsyncIterator[Client]:
    found = Client(AllowedAddresses(parse_networks(allowed)), lambda: 0)
    try:
        yield found
    finally:
        await found.close()


async def answer_of(client: Client, url: str, timeout_ms: int = 20_000) -> Answer:
    answers: asyncio.Queue[Answer] = asyncio.Queue()
    client.send(Request(URL(url), {"X-Test": "1"}, b"body", timeout_ms), answers.put_nowait)
    return await asyncio.wait_for(answers.get(), 30)


async def test_a_request_is_a_post_with_our_headers_and_body() -> None:
    async with receiving() as receiver, client() as found:
        assert await answer_of(found, receiver.url) == Answer(204)

        ((headers, body),) = receiver.came
        assert body == b"body"
        assert headers["x-test"] == "1"
        assert headers["user-agent"].startswith("mainstem/")
        assert "accept-encoding" not in headers


@pytest.mark.parametrize("status", [200, 301, 400, 404, 410, 429, 500, 503, 599])
async def test_any_status_is_an_answer(status: int) -> None:
    async with receiving() as receiver, client() as found:
        receiver.answering = answer(status, Retry_After="7", Location="http://127.0.0.1:9/x")

        assert await answer_of(found, receiver.url) == Answer(status, retry_after_ms=7_000)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "10.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
    ],
)
async def test_no_connection_is_made_to_an_address_that_is_not_allowed(host: str) -> None:
    async with receiving("127.0.0.1") as receiver, client(allowed="") as found:
        answered = await answer_of(found, f"http://{host}:{receiver.port}/")

        assert answered.status is None
        # Newer resolvers and the URL's own parser refuse some forms themselves.
        assert receiver.came == []
        if host not in ("2130706433", "0x7f000001", "0177.0.0.1", "127.1"):
            assert "is refused" in answered.error


async def test_a_redirect_inward_is_not_followed() -> None:
    async with receiving() as inside, receiving("127.0.0.2") as outside:
        outside.answering = answer(307, Location=inside.url)
        async with client(allowed="127.0.0.2/32") as found:
            assert await answer_of(found, outside.url) == Answer(307)

        assert inside.came == []
        assert len(outside.came) == 1


async def test_a_name_that_leads_inward_later_is_refused_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The resolver of the system says another address at every lookup."""
    leads_to = ["127.0.0.2", "127.0.0.1"]
    really = socket.getaddrinfo

    def changing(host: Any, *rest: Any, **named: Any) -> Sequence[Any]:
        is_ours = host == "rebinds.example"
        return really(leads_to.pop(0) if is_ours else host, *rest, **named)

    async with (
        receiving("127.0.0.2") as outside,
        receiving("127.0.0.1", outside.port) as inside,
        client("127.0.0.2/32") as found,
    ):
        monkeypatch.setattr(socket, "getaddrinfo", changing)
        outside.answering = closing
        url = f"http://rebinds.example:{outside.port}/"

        assert await answer_of(found, url) == Answer(204)
        later = await answer_of(found, url)

        assert later.error.startswith("127.0.0.1 is refused: loopback")
        assert inside.came == []
        assert leads_to == []


async def closing(_: web.Request, __: bytes) -> web.StreamResponse:
    """Answer, and close the connection, so that the next request makes its own."""
    response = web.Response(status=204)
    response.force_close()
    return response


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver, receiving() as proxy, client() as found:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)

        assert await answer_of(found, receiver.url) == Answer(204)
        assert proxy.came == []


async def test_a_receiver_that_hangs_is_given_up_in_time() -> None:
    async with receiving() as receiver, client() as found:
        receiver.answering = hanging

        answered = await answer_of(found, receiver.url, timeout_ms=50)

        assert answered == Answer(error="no answer within 0.05 s")
        assert len(found) == 0


async def hanging(_: web.Request, __: bytes) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    async def endless(request: web.Request, _: bytes) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(10_000))

    async with receiving() as receiver, client() as found:
        receiver.answering = endless

        assert await answer_of(found, receiver.url) == Answer(200)


async def test_a_receiver_that_resets_or_talks_nonsense_is_an_error() -> None:
    said = [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"]
    said.append(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        with contextlib.suppress(ConnectionError):
            writer.write(said.pop(0))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server, client() as found:
        port = server.sockets[0].getsockname()[1]
        while said:
            answered = await answer_of(found, f"http://127.0.0.1:{port}/token-in-path")

            assert answered.status is None
            assert answered.error
            assert "token-in-path" not in answered.error


async def test_a_receiver_that_is_not_there_is_an_error(unused: int) -> None:
    async with client() as found:
        answered = await answer_of(found, f"http://127.0.0.1:{unused}/")

        assert answered.error.startswith("no connection: Connect call failed")


@pytest.fixture
def unused() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


async def test_closing_breaks_off_requests_without_an_answer() -> None:
    answers: list[Answer] = []
    async with receiving() as receiver, client() as found:
        receiver.answering = hanging
        found.send(Request(URL(receiver.url), {}, b"", 60_000), answers.append)
        await receiver.got(1)

        await found.close()

        assert answers == []
        assert len(found) == 0


async def test_idle_waits_for_answers_unless_it_is_in_a_hurry() -> None:
    hurry, answers = asyncio.Event(), list[Answer]()
    async with receiving() as receiver, client() as found:
        await found.idle(30, hurry)
        found.send(Request(URL(receiver.url), {}, b"", 60_000), answers.append)
        await found.idle(30, hurry)
        assert answers == [Answer(204)]

        receiver.answering = hanging
        found.send(Request(URL(receiver.url), {}, b"", 60_000), answers.append)
        hurry.set()
        await found.idle(30, hurry)
        assert len(found) == 1


async def test_without_its_packages_the_head_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if no other test had started the head.
    monkeypatch.delitem(sys.modules, "mainstem.heads.webhooks.client")
    monkeypatch.delitem(sys.modules, "mainstem.heads.webhooks.head", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    with pytest.raises(Unsupported, match=r"pip install 'mainstem\[webhooks\]'"):
        async with serving():
            raise AssertionError
