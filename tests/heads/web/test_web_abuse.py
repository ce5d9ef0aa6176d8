"""Hostile HTTP gets HTTP errors from the common runtime, and does not affect other peers."""

import asyncio
import base64
import gzip
import logging
import resource
import struct

import pytest
from tests.heads.transport.echo import run, until
from tests.heads.web.frames import HOSTILE_FRAMES, frame
from tests.heads.web.served import asked, problem_in, serving, status_of

from mainstem.heads.web.limits import WebLimits

MIB = 1024 * 1024


def chunked(body: bytes) -> bytes:
    """Return a request whose body is sent in chunks."""
    return asked("POST /size", "Transfer-Encoding: chunked", body=body)


refused = {
    "two lengths": (asked("GET /livez", "Content-Length: 1", "Content-Length: 2"), 400),
    "the same length twice": (asked("GET /livez", "Content-Length: 1", "Content-Length: 1"), 400),
    "length and encoding": (
        asked("POST /size", "Content-Length: 4", "Transfer-Encoding: chunked"),
        400,
    ),
    "negative length": (asked("POST /size", "Content-Length: -1"), 400),
    "length with a sign": (asked("POST /size", "Content-Length: +4", body=b"abcd"), 400),
    "length of 2^64": (asked("POST /size", "Content-Length: 18446744073709551616"), 400),
    "a length over the limit": (asked("POST /size", f"Content-Length: {MIB + 1}"), 413),
    "a chunk of 2^64": (chunked(b"10000000000000000\r\n"), 400),
    "a chunk that is not a number": (chunked(b"0x4\r\nabcd\r\n"), 400),
    "chunks over the limit": (
        chunked(b"ff\r\n" + b"x" * 255 + b"\r\n") + (b"ffff\r\n" + b"x" * 65535 + b"\r\n") * 20,
        413,
    ),
    "a chunk extension without end": (chunked(b"1;" + b"a" * 100_000), 400),
    "a trailer without end": (chunked(b"0\r\nX: " + b"a" * 100_000), 400),
    "an encoding before the chunks": (
        asked("POST /size", "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
        501,
    ),
    "an unknown encoding": (asked("POST /size", "Transfer-Encoding: gzip"), 501),
    "chunked twice": (
        asked("POST /size", *["Transfer-Encoding: chunked"] * 2, body=b"0\r\n\r\n"),
        400,
    ),
    "chunked, and then not": (
        asked("POST /size", "Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
        400,
    ),
    "nearly chunked": (asked("POST /size", "Transfer-Encoding: \x0bchunked"), 400),
    "chunked in quotes": (asked("POST /size", 'Transfer-Encoding: "chunked"'), 501),
    "chunks in HTTP/1.0": (
        chunked(b"0\r\n\r\n").replace(b"/1.1", b"/1.0"),
        400,
    ),
    "a list of lengths": (asked("POST /size", "Content-Length: 4, 4", body=b"abcd"), 400),
    "a hexadecimal length": (asked("POST /size", "Content-Length: 0x4", body=b"abcd"), 400),
    "a length with an underscore": (
        asked("POST /size", "Content-Length: 1_0", body=b"a" * 10),
        400,
    ),
    "an empty length": (asked("POST /size", "Content-Length: "), 400),
    "a chunk with a sign": (chunked(b"+1\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk with more than it says": (chunked(b"1\r\nxyz\r\n0\r\n\r\n"), 400),
    "a chunk that ends with LF": (chunked(b"1\nx\n0\n\n"), 400),
    "lines that end with LF": (asked("GET /livez").replace(b"\r", b""), 400),
    "lines that end with CR": (asked("GET /livez").replace(b"\n", b""), 400),
    "HTTP/0.9": (b"GET /livez\r\n\r\n", 505),
    "a request in HTTP/2.0": (asked("GET /livez").replace(b"/1.1", b"/2.0"), 505),
    "a foreign host": (asked("GET /livez", host="evil.example"), 421),
    "a foreign host on our port": (asked("GET /livez", host="evil.example:8080"), 421),
    "a host that begins like ours": (asked("GET /livez", host="localhost.evil.example"), 421),
    "a second host": (asked("GET /livez", "Host: evil.example"), 400),
    "the same host twice": (asked("GET /livez", "Host: localhost"), 400),
    "a user before the host": (asked("GET /livez", host="evil@localhost"), 421),
    "two hosts in one": (asked("GET /livez", host="localhost, evil.example"), 421),
    "no host": (asked("GET /whoami", host=None), 400),
    "an absolute target": (asked("GET http://evil.example/livez"), 400),
    "a tunnel": (asked("CONNECT evil.example:80"), 400),
    "a line end in a header": (asked("GET /livez", "X: a\rb"), 400),
    "a NUL in a header": (asked("GET /livez", "X: a\0b"), 400),
    "a space before the colon": (asked("GET /livez", "X : a"), 400),
    "a folded header": (asked("GET /livez", "X: a\r\n b"), 400),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400),
    "a Kafka request": (b"\0\0\0\x12\0\x12\0\3\0\0\0\7\0\2me", 400),
    "a URL of 10 KiB": (asked("GET /" + "a" * 10_000), 414),
    "a URL of 1 MiB": (asked("GET /" + "a" * MIB), 414),
    "100,000 headers": (asked("GET /livez", *(f"X-{each}: y" for each in range(100_000))), 431),
    "a header of 24 KiB": (asked("GET /livez", "X: " + "y" * 24_000), 431),
    "a foreign origin": (
        asked("POST /size", "Origin: http://evil.example", "Content-Length: 0"),
        403,
    ),
    "an origin of no page": (asked("POST /size", "Origin: null", "Content-Length: 0"), 403),
    "our host on another port": (
        asked("POST /size", "Origin: http://localhost:1", "Content-Length: 0"),
        403,
    ),
    "a WebSocket of a foreign page": (
        asked(
            "GET /echo",
            "Origin: http://evil.example",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ),
        403,
    ),
}


@pytest.mark.parametrize(("sent", "status"), refused.values(), ids=refused.keys())
def test_it_is_refused_with_its_own_status_and_a_healthy_peer_is_answered(
    caplog: pytest.LogCaptureFixture, sent: bytes, status: int
) -> None:
    async def scenario() -> None:
        async with serving() as head:
            hostile = await head.connect()
            name = hostile.name
            answer = await hostile.answer_to(sent)
            await hostile.close()
            assert await head.is_well()

        assert status_of(answer) == status
        assert answer.count(b"HTTP/1.1 ") == 1
        assert problem_in(answer)["detail"]
        said = [each.getMessage() for each in caplog.records if name in each.getMessage()]
        assert len(said) == 1
        assert f"HTTP {status}: " in said[0]

    with caplog.at_level(logging.WARNING, "mainstem.heads"):
        run("uvloop", scenario)


def test_what_is_close_to_a_limit_is_taken() -> None:
    limits = WebLimits(max_body_bytes=100_000)

    async def scenario() -> None:
        async with serving(limits) as head:
            close = "Connection: close"
            whole = asked("POST /size", close, "Content-Length: 100000", body=b"x" * 100_000)
            chunks = b"".join(b"%x\r\n%b\r\n" % (1, b"y") for _ in range(5000)) + b"0\r\n\r\n"
            chunked = asked("POST /size", close, "Transfer-Encoding: chunked", body=chunks)
            many = asked("POST /size", close, "Content-Length: 0", *["X: y"] * 97)

            assert b'"size":100000' in await head.answer_to(whole)
            assert b'"size":5000' in await head.answer_to(chunked)
            assert b'"headers":100' in await head.answer_to(many)

    run("uvloop", scenario)


def test_a_trailer_changes_nothing_that_was_checked() -> None:
    async def scenario() -> None:
        async with serving() as head:
            body = b"1\r\nx\r\n0\r\nAuthorization: Basic YW5uOng=\r\nX: y\r\n\r\n"
            sent = asked("POST /size", "Transfer-Encoding: chunked", "Connection: close", body=body)

            assert b'{"size":1,"headers":3}' in await head.answer_to(sent)

    run("uvloop", scenario)


def test_a_gzip_bomb_is_unpacked_up_to_the_limit_only() -> None:
    bomb = gzip.compress(bytes(200 * MIB))
    small = gzip.compress(b"hello")

    async def scenario() -> None:
        async with serving() as head:
            close, encoding = "Connection: close", "Content-Encoding: gzip"
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for body, status in (
                (bomb, 413),
                (small, 200),
                (small[:-1], 400),
                (small + b"x", 400),
                (b"not gzip", 400),
            ):
                length = f"Content-Length: {len(body)}"
                answer = await head.answer_to(
                    asked("POST /size", close, encoding, length, body=body)
                )
                assert status_of(answer) == status
            brotli = asked("POST /size", close, "Content-Encoding: br", "Content-Length: 0")
            assert status_of(await head.answer_to(brotli)) == 415
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 64 * 1024

    run("uvloop", scenario)


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /livez HTTP/1.1\r\nX: ",
        asked("POST /size", "Content-Length: 9", body=b"half"),
        chunked(b"5\r\nhal"),
    ],
)
def test_a_request_that_does_not_become_whole_in_time_is_refused(begun: bytes) -> None:
    limits = WebLimits(head_s=0.1, body_s=0.1)

    async def scenario() -> None:
        async with serving(limits) as head:
            assert status_of(await head.answer_to(begun)) == 408
            assert await head.is_well()

    run("uvloop", scenario)


def test_a_head_that_comes_byte_by_byte_has_no_more_time_than_another() -> None:
    limits = WebLimits(head_s=0.3)

    async def scenario() -> None:
        async with serving(limits) as head:
            slow = await head.connect()

            async def drip() -> None:
                await slow.say(b"GET /livez HTTP/1.1\r\nX: ")
                while True:
                    await slow.say(b"y")
                    await asyncio.sleep(0.01)

            dripping = asyncio.create_task(drip())
            assert status_of(await slow.rest()) == 408
            dripping.cancel()
            await slow.close()

    run("uvloop", scenario)


def test_a_connection_that_says_nothing_is_closed_in_time() -> None:
    limits = WebLimits(head_s=0.1, idle_s=0.1)

    async def scenario() -> None:
        async with serving(limits) as head:
            silent, kept = await head.connect(), await head.connect()
            await kept.say(asked("GET /livez"))

            assert await silent.rest() == b""
            assert (await kept.rest()).endswith(b"ok\n")
            await silent.close()
            await kept.close()

    run("uvloop", scenario)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /livez HTTP/1.1\r\nX: ",
        asked("GET /livez"),
        asked("POST /size", "Content-Length: 9", body=b"half"),
    ],
    ids=["nothing", "half a head", "a request", "half a body"],
)
def test_connections_that_wait_for_their_peer_give_way_to_others(said: bytes) -> None:
    limits = WebLimits(max_connections=20, head_s=3600, body_s=3600, idle_s=3600)

    async def scenario() -> None:
        async with serving(limits) as head:
            peers = [await head.connect() for _ in range(60)]
            for peer in peers:
                await peer.say(said)

            for _ in range(10):
                assert await head.is_well()
            assert head.server.traffic.refused == 0
            assert head.server.traffic.open <= 20
            for peer in peers:
                await peer.close()

    run("uvloop", scenario)


def test_busy_connections_do_not_give_way() -> None:
    limits = WebLimits(max_connections=3)

    async def scenario() -> None:
        async with serving(limits) as head:
            peers = [await head.connect() for _ in range(3)]
            for peer in peers:
                await peer.say(asked("GET /wait", "Connection: close"))
            await until(lambda: head.app.waiting == 3)

            fourth = await head.connect()
            assert await fourth.rest() == b""
            assert head.server.traffic.refused == 1
            head.app.go_on.set()
            for peer in peers:
                assert (await peer.rest()).endswith(b"done\n")
                await peer.close()
            await fourth.close()

    run("uvloop", scenario)


def test_ten_thousand_pipelined_requests_are_answered_in_order_and_take_no_memory() -> None:
    async def scenario() -> None:
        async with serving() as head:
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            both = asked("GET /livez") + asked("GET /unknown")
            sent = both * 5000 + asked("GET /livez", "Connection: close")

            answer = await head.answer_to(sent)

            statuses = [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]]
            assert statuses == [200, 404] * 5000 + [200]
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 64 * 1024

    run("uvloop", scenario)


def test_a_peer_that_does_not_read_is_cut_and_takes_no_memory() -> None:
    limits = WebLimits(stalled_s=0.2)

    async def scenario() -> None:
        async with serving(limits) as head:
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            peer = await head.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.say(asked("GET /lines"))

            await until(lambda: head.server.traffic.open == 0)

            assert head.server.traffic.cut_off == 1
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 64 * 1024
            assert await head.is_well()
            await peer.close()

    run("uvloop", scenario)


def test_an_endless_answer_ends_when_its_peer_goes() -> None:
    async def scenario() -> None:
        async with serving() as head:
            peer = await head.asked(asked("GET /lines"))
            await peer.until(b"xxx\n")
            await peer.close()

            await until(lambda: not head.server.connections())

    run("uvloop", scenario)


# WebSocket


UPGRADE = asked(
    "GET /echo",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}",
)


@pytest.mark.parametrize(("sent", "code"), HOSTILE_FRAMES.values(), ids=HOSTILE_FRAMES.keys())
def test_a_hostile_frame_closes_the_websocket_with_its_code(sent: bytes, code: int) -> None:
    async def scenario() -> None:
        async with serving() as head:
            peer = await head.asked(UPGRADE)
            assert b" 101 " in await peer.until(b"\r\n\r\n")
            await peer.say(frame(1, b"hi"))
            assert await peer.until(b"hi") == b"\x81\x02hi"

            ended = await peer.answer_to(sent)

            assert ended[:1] == b"\x88"
            assert struct.unpack(">H", ended[2:4]) == (code,)
            assert await head.is_well()
            await peer.close()

    run("uvloop", scenario)
