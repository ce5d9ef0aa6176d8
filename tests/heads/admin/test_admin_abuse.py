"""Hostile HTTP requests get HTTP errors, and do not affect other clients."""

import logging
import resource
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from tests.heads.admin.web import answer_to, connect, get, pages_served

from mainstem.heads.admin.settings import AdminSettings

LOCAL = b"Host: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with pages_served() as found:
        yield found


def asked(*lines: bytes, first: bytes = b"GET /livez HTTP/1.1") -> bytes:
    return b"\r\n".join((first, b"Connection: close", *lines, b"", b""))


refused = {
    "two lengths": (asked(b"Host: localhost", b"Content-Length: 1", b"Content-Length: 2"), 400),
    "length and encoding": (
        asked(b"Host: localhost", b"Content-Length: 4", b"Transfer-Encoding: chunked"),
        400,
    ),
    "negative length": (asked(b"Host: localhost", b"Content-Length: -1"), 400),
    "length of 2^64": (asked(b"Host: localhost", b"Content-Length: 18446744073709551616"), 400),
    "a body over the limit": (asked(b"Host: localhost", b"Content-Length: 1048577"), 413),
    "a chunk of 2^64": (
        asked(b"Host: localhost", b"Transfer-Encoding: chunked") + b"10000000000000000\r\n",
        400,
    ),
    "an unknown encoding": (asked(b"Host: localhost", b"Transfer-Encoding: gzip"), 501),
    "a post with a body": (
        asked(b"Host: localhost", b"Content-Length: 2", first=b"POST /a HTTP/1.1") + b"{}",
        403,
    ),
    "a foreign host": (asked(b"Host: evil.example"), 421),
    "a foreign host on our port": (asked(b"Host: evil.example:9644"), 421),
    "a host that begins like ours": (asked(b"Host: localhost.evil.example"), 421),
    "a host of two": (asked(b"Host: localhost", b"Host: evil.example"), 400),
    "no host": (asked(first=b"GET /metrics HTTP/1.1"), 400),
    "a line end in a header": (asked(b"Host: localhost", b"X: a\rb"), 400),
    "a NUL in a header": (asked(b"Host: localhost", b"X: a\0b"), 400),
    "a space before the colon": (asked(b"Host : localhost"), 400),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400),
    "a Kafka request": (b"\0\0\0\x12\0\x12\0\3\0\0\0\7\0\2me", 400),
    "a URL of 1 MiB": (asked(b"Host: localhost", first=b"GET /" + b"a" * (1 << 20)), 414),
    "100,000 headers": (asked(*(b"X-%d: y" % each for each in range(100_000))), 431),
    "a head of 24 KiB at once": (asked(b"Host: localhost", b"X: " + b"y" * 24_000), 431),
    "an absolute target": (asked(b"Host: localhost", first=b"GET http://evil/ HTTP/1.1"), 400),
    "a path upwards": (asked(b"Host: localhost", first=b"GET /../etc/passwd HTTP/1.1"), 404),
    "line ends in the path": (asked(b"Host: localhost", first=b"GET /%0d%0aX:y HTTP/1.1"), 404),
}


@pytest.mark.parametrize(("sent", "status"), refused.values(), ids=refused.keys())
def test_it_is_refused_with_its_own_code_and_a_healthy_peer_is_answered(
    address: str, caplog: pytest.LogCaptureFixture, sent: bytes, status: int
) -> None:
    with caplog.at_level(logging.WARNING, "mainstem.heads"), connect(address) as hostile:
        answer = answer_to(hostile, sent)
        name = "{}:{}".format(*hostile.getsockname())

        assert get(address).status == 200

    # A reset by a server that did not read a megabyte may overtake what it said.
    assert answer[:12] == b"HTTP/1.1 %d" % status or (answer == b"" and len(sent) > 1 << 16)
    assert b"\r\nX:y" not in answer
    said = [each.getMessage() for each in caplog.records if name in each.getMessage()]
    assert len(said) == (status not in (403, 404))
    assert all(f"HTTP {status}: " in each for each in said)
    assert not any(each.exc_info for each in caplog.records)


def test_the_host_may_be_named_in_any_way_that_means_this_machine(address: str) -> None:
    for name in (b"localhost", b"LOCALHOST:1", b"127.0.0.1:9644", b"[::1]", b"[::1]:9644"):
        with connect(address) as peer:
            assert answer_to(peer, asked(b"Host: " + name)).startswith(b"HTTP/1.1 200")


def test_a_probe_of_a_load_balancer_need_not_name_the_host(address: str) -> None:
    with connect(address) as peer:
        answer = answer_to(peer, b"GET /livez HTTP/1.0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_one_byte_at_a_time_is_as_good_as_all_at_once(address: str) -> None:
    with connect(address) as slow:
        for byte in asked(b"Host: localhost")[:-1]:
            slow.sendall(bytes([byte]))
        assert get(address).status == 200

        assert answer_to(slow, b"\n").startswith(b"HTTP/1.1 200")


def test_a_request_that_does_not_become_whole_in_time_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = AdminSettings(request_s=0.05)
    with pages_served(settings=settings) as address, caplog.at_level(logging.WARNING):
        for begun in (b"", b"GET /livez HTTP/1.1\r\nX: "):
            with connect(address) as slow:
                assert answer_to(slow, begun)[:12] == (b"HTTP/1.1 408" if begun else b"")

    said = [each.message for each in caplog.records]
    assert sum("no whole request came within 0.05 s" in each for each in said) == 2


def test_a_hundred_requests_that_never_end_keep_nobody_waiting(address: str) -> None:
    peers = [connect(address) for _ in range(100)]
    for peer in peers[:50]:
        peer.sendall(b"GET /livez HTTP/1.1\r\nX: ")

    assert get(address).status == 200
    for peer in peers:
        peer.close()


def test_more_idle_connections_than_there_may_be_do_not_shut_out_a_health_check() -> None:
    with pages_served(settings=AdminSettings(request_s=3600)) as address:
        peers = [connect(address) for _ in range(AdminSettings().max_connections * 3)]
        try:
            # The oldest have given way by now.
            assert answer_to(peers[0], b"") == b""
            assert [get(address).status for _ in range(10)] == [200] * 10
        finally:
            for peer in peers:
                peer.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /livez HTTP/1.0", 200),
        (b"GET /readyz HTTP/1.0", 200),
        (b"GET /metrics HTTP/1.0", 400),
        (b"GET /queues/events?topic=a&queue=b HTTP/1.0", 400),
        (b"GET /livez HTTP/1.1", 200),
    ],
)
def test_who_names_no_host_is_told_of_health_alone(
    address: str, request_line: bytes, status: int
) -> None:
    with connect(address) as peer:
        answer = answer_to(peer, request_line + b"\r\nConnection: close\r\n\r\n")

    assert answer.split()[1] == b"%d" % status


def test_heads_that_never_end_take_no_memory(address: str) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peers = [connect(address) for _ in range(200)]
    for peer in peers:
        peer.sendall(b"GET /livez HTTP/1.1\r\nX: " + b"y" * 12_000)
    assert get(address).status == 200
    for peer in peers:
        peer.close()

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 64 * 1024


def test_who_asks_and_closes_its_side_is_answered() -> None:
    with pages_served(metrics=lambda: "made 1\n") as address:
        for path, body in ((b"/livez", b"ok\n"), (b"/metrics", b"made 1\n")):
            with connect(address) as peer:
                peer.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
                peer.shutdown(socket.SHUT_WR)

                assert answer_to(peer, b"").endswith(b"\r\n\r\n" + body)


def test_who_asks_and_goes_away_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    go_on, gone = threading.Event(), struct.pack("ii", 1, 0)

    def metrics() -> str:
        assert go_on.wait(20)
        return "made 1\n"

    with pages_served(metrics) as address:
        for _ in range(20):
            peer = connect(address)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, gone)
            peer.sendall(asked(b"Host: localhost", first=b"GET /metrics HTTP/1.1"))
            peer.close()
        assert get(address).status == 200
        go_on.set()

        assert get(address, "/metrics").text == "made 1\n"

    assert not caplog.records
