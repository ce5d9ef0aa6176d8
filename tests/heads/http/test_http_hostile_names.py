"""Hostile names, origins and WebSocket frames at a real server: no file, no page, no cookie."""

import base64
import http.client
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest
from tests.heads.server_process import PATIENCE_S, Process, connected
from tests.heads.web.frames import HOSTILE_FRAMES, frame

ORIGIN = "https://shop.example"
SCRIPT = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
PLACE = b'{"position": "0:1"}'


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Asking:
    """A client that sends a target as it is; others would tidy up ``..`` and ``//``."""

    def __init__(self, process: Process, path: Path) -> None:
        self.process, self.path = process, path

    def __call__(
        self, asked: str, body: bytes | None = None, *, head: str = "http", **headers: str
    ) -> Answer:
        method, target = asked.split(" ", 1)
        connection = http.client.HTTPConnection(self.process.addresses[head], timeout=PATIENCE_S)
        try:
            connection.putrequest(method, target)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Type", "application/json")
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    path = tmp_path_factory.mktemp("served")
    settings = {"http__listen": "127.0.0.1:0", "http__origins": ORIGIN}
    with Process(path / "data", log=path / "log", **settings) as process:
        ask = Asking(process, path)
        assert ask("POST /topics/orders/events", b"1").status == 200
        yield ask
        assert "Traceback" not in process.logged()


refused_topics = {
    "empty": ("", 404),
    "a blank": ("%20", 400),
    "the directory above": ("..", 400),
    "the directory above, encoded": ("%2e%2e", 400),
    "the directory above, encoded twice": ("%252e%252e", 400),
    "a path": ("..%2F..%2Fetc", 400),
    "an absolute path": ("%2Fetc", 400),
    "NUL": ("a%00", 400),
    "250 characters": ("a" * 250, 400),
    "a letter that looks like another": ("%D0%B0", 400),
    "an internal topic": ("__mainstem_groups", 400),
    "a page": (SCRIPT, 400),
}


@pytest.mark.parametrize(("topic", "status"), refused_topics.values(), ids=refused_topics.keys())
def test_a_name_that_is_none_is_refused_and_leads_to_no_file(
    ask: Asking, topic: str, status: int
) -> None:
    before = {each.name for each in ask.path.iterdir()}

    for asked, body in [("POST", b"1"), ("GET", None)]:
        answer = ask(f"{asked} /topics/{topic}/events", body)
        assert answer.status == status, answer.body
        assert answer.headers["content-type"] == "application/problem+json"
    assert {each.name for each in ask.path.iterdir()} == before


def test_names_with_a_dot_and_a_line_are_two_topics(ask: Asking) -> None:
    for name, body in [("a.b", b"1"), ("a_b", b"2")]:
        assert ask(f"POST /topics/{name}/events", body).status == 200

    for name, value in [("a.b", 1), ("a_b", 2)]:
        (event,) = json.loads(ask(f"GET /topics/{name}/events").body)["events"]
        assert event["value"] == value


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2F..%2Fetc", "%2Fetc%2Fpasswd", "a%00b"])
def test_a_group_or_queue_may_be_called_like_a_path_and_is_none(ask: Asking, name: str) -> None:
    before = {each.name for each in ask.path.iterdir()}
    group, queue = f"/topics/orders/groups/{name}", f"/topics/orders/queues/{name}"

    put = ask(f"PUT {group}", PLACE)

    if put.status == 204:
        assert json.loads(ask(f"GET {group}").body)["position"] == "0:1"
        assert ask(f"DELETE /groups/{name}").status == 204
    else:
        assert put.status == 400
        assert json.loads(put.body)["failure"] == "invalid"
    if (made := ask(f"PUT {queue}", b"{}")).status == 201:
        assert ask(f"DELETE {queue}").status == 204
    else:
        assert (made.status, json.loads(made.body)["failure"]) == (400, "invalid")
    assert ask("GET /topics/orders/groups/").status == 404
    assert {each.name for each in ask.path.iterdir()} == before


@pytest.mark.parametrize(
    "asked",
    [
        f"GET /{SCRIPT}",
        f"GET /topics/{SCRIPT}/events",
        f"GET /topics/orders/groups/{SCRIPT}",
        f"GET /topics/orders/queues/{SCRIPT}",
        f"POST /topics/orders/queues/q/deliveries/{SCRIPT}/ack",
        f"GET /topics/orders/events?{SCRIPT}=1",
        f"GET /topics/orders/events?from={SCRIPT}",
        f"GET /topics/orders/events?filter={SCRIPT}",
        f"GET /topics/orders/events/{SCRIPT}/0",
        f"GET /topics/orders/dead-letters?limit={SCRIPT}",
        "GET /<script>alert(1)</script>",
        "BREW /",
    ],
)
@pytest.mark.parametrize("head", ["http", "admin"])
def test_no_browser_takes_an_error_for_a_page(ask: Asking, asked: str, head: str) -> None:
    answer = ask(asked, head=head)

    assert 400 <= answer.status < 500
    assert answer.headers.get_all("x-content-type-options") == ["nosniff"]
    kind = answer.headers.get_content_type()
    assert kind in ("application/problem+json", "application/json", "text/plain")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("origin", [ORIGIN, "https://evil.example"])
def test_no_page_of_another_origin_may_use_the_credentials_of_a_browser(
    ask: Asking, method: str, origin: str
) -> None:
    answer = ask(
        f"{method} /topics/orders/events",
        b"1" if method == "POST" else None,
        Origin=origin,
        Cookie="session=1",
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization,cookie",
    )

    assert "access-control-allow-credentials" not in answer.headers
    # With "*" a browser would take it for a server of public data.
    assert answer.headers.get("access-control-allow-origin") == (
        ORIGIN if origin == ORIGIN else None
    )
    if method != "GET":
        assert (answer.status == 200) == (origin == ORIGIN)


UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"
    f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\n\r\n"
).encode()


@pytest.mark.parametrize(("sent", "code"), HOSTILE_FRAMES.values(), ids=HOSTILE_FRAMES.keys())
def test_a_hostile_frame_closes_the_websocket_and_compression_is_declined(
    ask: Asking, sent: bytes, code: int
) -> None:
    with connected(ask.process.addresses["http"]) as socket, socket.makefile("rb") as heard:
        socket.sendall(UPGRADE)
        head = b"".join(iter(heard.readline, b"\r\n")).lower()
        assert head.startswith(b"http/1.1 101 ")
        assert b"sec-websocket-extensions" not in head
        socket.sendall(frame(1, b'{"do": "nonsense", "ref": 1}'))
        opcode, payload = _frame_in(heard)
        assert (opcode, json.loads(payload)["type"]) == (1, "error")

        socket.sendall(sent)

        opcode, payload = _frame_in(heard)
        assert (opcode, struct.unpack(">H", payload[:2])) == (8, (code,))
    assert ask("GET /topics/orders/events").status == 200


def _frame_in(heard: IO[bytes]) -> tuple[int, bytes]:
    """Read a frame of the server; returns its opcode and payload."""
    first, size = heard.read(2)
    assert first & 0x70 == 0, "compressed"
    if size == 126:
        (size,) = struct.unpack(">H", heard.read(2))
    return first & 15, heard.read(size)
