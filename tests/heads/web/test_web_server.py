"""The common runtime of the HTTP heads: errors, logins, draining, and half-closed peers."""

import asyncio
import logging

import httpx
import pytest
from tests.heads.transport.echo import run, until
from tests.heads.web.served import asked, problem_in, serving, status_of

from mainstem.auth import Auth, Credentials, Peer, Principal
from mainstem.core.errors import Unauthenticated
from mainstem.heads.web.connection import HttpConnection
from mainstem.heads.web.origin import Origins

CLOSE = "Connection: close"


def test_a_real_client_keeps_its_connection() -> None:
    async def scenario() -> None:
        async with serving() as head, httpx.AsyncClient(base_url=head.url) as client:
            for _ in range(3):
                assert (await client.get("/livez")).text == "ok\n"
                size = await client.post("/size", content=b"x" * 300_000)
                assert size.json()["size"] == 300_000
            assert head.server.traffic.accepted == 1
            assert len(head.server.connections()) == 1

    run("uvloop", scenario)


@pytest.mark.parametrize(
    ("request_line", "status", "failure"),
    [
        ("GET /unknown", 404, "not_found"),
        ("GET /nothing", 404, ""),
        ("POST /livez", 405, ""),
        ("GET /teapot", 418, ""),
    ],
)
def test_an_error_is_a_problem(request_line: str, status: int, failure: str) -> None:
    async def scenario() -> None:
        async with serving() as head:
            answer = await head.answer_to(asked(request_line, CLOSE))

            assert status_of(answer) == status
            assert problem_in(answer)["failure"] == failure

    run("uvloop", scenario)


def test_a_bug_is_answered_with_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as head:
            answer = await head.answer_to(asked("GET /bug", CLOSE))
            assert status_of(answer) == 500
            assert b"a bug" not in answer
            assert await head.is_well()

    with pytest.raises(AssertionError, match="KeyError: 'a bug'"):
        run("uvloop", scenario)
    assert "/bug could not be answered" in caplog.text


def test_who_fails_to_log_in_is_told_how_to() -> None:
    def authenticate(_mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
        if credentials.secret != b"secret":
            raise Unauthenticated(peer.address, "the password is wrong")
        return Principal(credentials.user)

    async def scenario() -> None:
        async with (
            serving(auth=Auth(authenticate=authenticate)) as head,
            httpx.AsyncClient(base_url=head.url) as client,
        ):
            known = await client.get("/whoami", auth=("ann", "secret"))
            wrong = await client.get("/whoami", auth=("ann", "guess"))
            other = await client.get("/whoami", headers={"Authorization": "Bearer x"})

            assert known.json() == {"name": "ann", "local": True}
            assert [wrong.status_code, other.status_code] == [401, 401]
            assert wrong.headers["www-authenticate"].startswith("Basic realm=")
            assert wrong.json()["failure"] == "unauthenticated"

    run("uvloop", scenario)


def test_pages_of_allowed_origins_may_ask_and_read() -> None:
    async def scenario() -> None:
        async with serving() as head, httpx.AsyncClient(base_url=head.url) as client:
            shop = {"Origin": "https://shop.example"}
            foreign = {"Origin": "https://evil.example"}
            asks = {"Access-Control-Request-Method": "POST"}

            assert (await client.options("/size", headers=shop | asks)).status_code == 200
            allowed = await client.post("/size", headers=shop)
            assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
            assert (await client.options("/size", headers=foreign | asks)).status_code == 400
            read = await client.get("/livez", headers=foreign)
            assert "access-control-allow-origin" not in read.headers
            own = {"Origin": f"http://{head.address}"}
            assert (await client.post("/size", headers=own)).status_code == 200

    run("uvloop", scenario)


def test_any_host_may_be_allowed() -> None:
    async def scenario() -> None:
        async with serving(origins=Origins(hosts=frozenset("*"))) as head:
            answer = await head.answer_to(asked("GET /livez", CLOSE, host="shop.example"))
            assert status_of(answer) == 200

    run("uvloop", scenario)


def test_a_probe_in_http_1_0_need_not_name_the_host() -> None:
    async def scenario() -> None:
        async with serving() as head:
            assert status_of(await head.answer_to(b"GET /livez HTTP/1.0\r\n\r\n")) == 200
            assert status_of(await head.answer_to(b"GET /whoami HTTP/1.0\r\n\r\n")) == 400

    run("uvloop", scenario)


def test_an_offer_of_http_2_is_declined_and_the_request_answered() -> None:
    async def scenario() -> None:
        async with serving() as head:
            offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA")
            get = await head.answer_to(asked("GET /livez", *offer) + asked("GET /livez", CLOSE))
            post = await head.answer_to(
                asked("POST /size", *offer, "Content-Length: 5", body=b"hello")
                + asked("GET /unknown", CLOSE)
            )

            assert get.endswith(b"ok\n")
            assert b'"size":5' in post
            assert get.count(b"HTTP/1.1 200 ") == 2
            assert post.count(b"HTTP/1.1 404 ") == 1

    run("uvloop", scenario)


def test_who_asks_and_closes_its_side_is_answered() -> None:
    async def scenario() -> None:
        async with serving() as head:
            peer = await head.asked(asked("GET /wait") + asked("GET /livez"))
            await until(lambda: head.app.waiting == 1)
            peer.writer.write_eof()
            head.app.go_on.set()

            heard = await peer.rest()

            assert heard.count(b"HTTP/1.1 200 ") == 2
            assert heard.endswith(b"ok\n")
            await peer.close()

    run("uvloop", scenario)


def test_an_app_learns_that_its_peer_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as head:
            peer = await head.asked(asked("GET /wait"))
            await until(lambda: head.app.waiting == 1)
            peer.writer.transport.abort()

            await until(lambda: head.app.waiting == 0)
            assert head.app.gone == 1

    run("uvloop", scenario)
    assert not caplog.records


def test_one_byte_at_a_time_is_as_good_as_all_at_once() -> None:
    sent = asked("POST /size", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n")
    sent += asked("GET /unknown", CLOSE)

    async def scenario() -> None:
        async with serving() as head:
            peer = await head.connect()
            for at in range(len(sent)):
                read = head.server.traffic.bytes_in
                await peer.say(sent[at : at + 1])
                await until(lambda read=read: head.server.traffic.bytes_in > read)  # type: ignore[misc]
            heard = await peer.rest()

            assert b'"size":5' in heard
            assert b"HTTP/1.1 404 " in heard
            await peer.close()

    run("uvloop", scenario)


# Draining


def test_draining_answers_what_waits_and_refuses_the_rest() -> None:
    async def scenario() -> None:
        async with serving() as head:
            idle, kept, waiting, socket = [await head.connect() for _ in range(4)]
            await kept.say(asked("GET /livez"))
            await kept.until(b"ok\n")
            await waiting.say(asked("GET /wait"))
            await until(lambda: head.app.waiting == 1)
            late = await head.connect()
            await until(lambda: head.server.traffic.open == 5)
            await late.say(asked("GET /whoami"))

            head.app.context.drain()
            await head.server.drain(10, asyncio.Event())

            heard = await waiting.rest()
            assert heard.endswith(b"drained\n")
            assert b"\r\nconnection: close\r\n" in heard
            assert b"ANONYMOUS" in await late.rest()
            assert [await each.rest() for each in (idle, kept, socket)] == [b"", b"", b""]
            with pytest.raises(ConnectionRefusedError):
                await head.connect()
            for peer in (idle, kept, waiting, socket, late):
                await peer.close()

    run("uvloop", scenario)


def test_closing_ends_requests_that_do_not_end_by_themselves() -> None:
    async def scenario() -> None:
        async with serving() as head:
            peer = await head.asked(asked("GET /wait"))
            await until(lambda: head.app.waiting == 1)
            hurry = asyncio.Event()
            hurry.set()

            await head.server.drain(10, hurry)
            assert head.app.waiting == 1
            await head.server.close()

            assert head.app.waiting == 0
            assert head.server.connections() == []
            await peer.close()

    run("uvloop", scenario)


def test_nothing_is_logged_under_the_name_of_a_library(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as head:
            await head.answer_to(b"nonsense\r\n\r\n")
            assert await head.is_well()

    with caplog.at_level(logging.DEBUG):
        run("uvloop", scenario)
    assert {each.name for each in caplog.records} <= {"mainstem.heads", "asyncio"}


def test_it_is_uvicorn_that_speaks_http() -> None:
    names = [each.__module__ for each in HttpConnection.__mro__]

    assert "uvicorn.protocols.http.httptools_impl" in names
