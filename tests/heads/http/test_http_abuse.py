"""Hostile bodies, events and connections at a real server: HTTP errors, and memory in bounds."""

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest
from tests.heads.server_process import PATIENCE_S, Process, beside, connected, until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

EVENTS = "/topics/orders/events"
MIB = 1024 * 1024
JSON = "application/json"
NDJSON = "application/x-ndjson"
LINES = "application/vnd.mainstem.events+json"
BATCH = "application/cloudevents-batch+json"
PARTS = "multipart/form-data; boundary=b"
CLOUD = b'{"specversion":"1.0","id":"1","source":"a","type":"t"%b}'


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path = tmp_path_factory.mktemp("served")
    limits = {"http__max_connections": 400, "http__slow_client_s": 1.0}
    with Process(path / "data", log=path / "log", http__listen="127.0.0.1:0", **limits) as found:
        yield found
        assert "Traceback" not in found.logged()


@pytest.fixture
def client(process: Process) -> Iterator[httpx.Client]:
    url = f"http://{process.addresses['http']}"
    with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as found:
        found.post(EVENTS, json=0).raise_for_status()
        yield found


class Healthy:
    """A client that publishes and reads, beside others."""

    def __init__(self, process: Process) -> None:
        self._url = f"http://{process.addresses['http']}/topics/healthy/events"

    def check(self) -> None:
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            client.post(self._url, json=1).raise_for_status()
            assert client.get(self._url).json()["events"][0]["value"] == 1


def multipart(head: bytes, count: int) -> bytes:
    return (b"--b\r\n" + head + b"\r\n\r\nx\r\n") * count + b"--b--\r\n"


bodies = {
    "a body of brackets": (JSON, b"[" * 8 * MIB, 400),
    "an object of objects": (JSON, b'{"a":' * MIB, 400),
    "a number of a million digits": (JSON, b"1" * MIB, 400),
    "a text without end": (JSON, b'"' + b"x" * 15 * MIB, 400),
    "a value over the topic's limit": (JSON, b'"' + b"x" * 15 * MIB + b'"', 413),
    "a body over the limit": (JSON, b'"' + b"x" * 17 * MIB + b'"', 413),
    "a million lines": (NDJSON, b"1\n" * MIB, 413),
    "a million empty lines": (NDJSON, b"\n" * 4 * MIB, 413),
    "an event with a million headers": (
        LINES,
        b'{"value":1,"headers":{"a":[%b]}}' % b",".join([b'"x"'] * MIB),
        400,
    ),
    "a list of five million lists": (JSON, b"[%b]" % b",".join([b"[]"] * 5_000_000), 413),
    "a line of five million lists": (NDJSON, b"[%b]" % b",".join([b"[]"] * 5_000_000), 413),
    "an event of five million lists": (
        LINES,
        b'{"value":[%b]}' % b",".join([b"[]"] * 5_000_000),
        413,
    ),
    "a CloudEvent of five million lists": (
        "application/cloudevents+json",
        CLOUD % (b',"data":[%b]' % b",".join([b"[]"] * 5_000_000)),
        413,
    ),
    "an event with a header of a header": (LINES, b'{"value":1,"headers":{"a":[[1]]}}', 400),
    "base64 that is none": (LINES, b'{"base64":"%%%"}', 400),
    "a time after the end of time": (LINES, b'{"value":1,"timestamp_ms":9223372036854775808}', 400),
    "a partition of 2^64": (LINES, b'{"value":1,"partition":18446744073709551616}', 404),
    "a hundred thousand parts": (PARTS, multipart(b"X: y", 100_000), 400),
    "a part with a million headers": (PARTS, multipart(b"\r\n".join([b"X: y"] * MIB), 1), 400),
    "a part with a header of 4 MiB": (PARTS, multipart(b"X: " + b"y" * 4 * MIB, 1), 400),
    "parts without end": (PARTS, b"--b\r\n\r\n" + b"x" * 4 * MIB, 400),
    "a multipart body without a boundary": ("multipart/mixed", b"--b\r\n\r\nx\r\n--b--", 400),
    "a batch of a hundred thousand": (
        BATCH,
        b"[%b]" % b",".join([CLOUD % b""] * 100_000),
        413,
    ),
    "a CloudEvent with a million attributes": (
        "application/cloudevents+json",
        CLOUD % b"".join(b',"a%d":"x"' % each for each in range(1_000_000)),
        400,
    ),
    "a media type without end": ("text/plain" + ";a=b" * 2000, b"x", 200),
}


@pytest.mark.parametrize(("kind", "body", "status"), bodies.values(), ids=bodies.keys())
def test_a_hostile_body_gets_an_error_and_takes_no_memory(
    process: Process, client: httpx.Client, kind: str, body: bytes, status: int
) -> None:
    with process.within_bounds(), beside(Healthy(process), process):
        answer = client.post(EVENTS, content=body, headers={"content-type": kind})

        assert answer.status_code == status, answer.text[:500]
        if status != 200:
            assert answer.json()["detail"]


def test_gzip_bombs_are_unpacked_up_to_the_limit(process: Process, client: httpx.Client) -> None:
    bomb = gzip.compress(bytes(400 * MIB))
    twice = gzip.compress(gzip.compress(b"1"))
    headers = {"content-type": JSON, "content-encoding": "gzip"}
    with process.within_bounds(), beside(Healthy(process), process):
        for path in (EVENTS, "/topics/orders/queues/q/settlements"):
            assert client.post(path, content=bomb, headers=headers).status_code == 413
        assert client.post(EVENTS, content=twice, headers=headers).status_code == 400


hostile_texts = {
    "line ends": "a\r\nX-Evil: 1\r\n\r\n<script>",
    "the end of a message": "a\n\nevent: evil\ndata: 1\n\n",
    "a page": "<script>alert(1)</script>",
    "a NUL": "a\0b",
    "right to left": "\u202eevil",
    "a separator of lines": "a\u2028b\u0085c",
}


@pytest.mark.parametrize("text", hostile_texts.values(), ids=hostile_texts.keys())
def test_what_an_event_holds_breaks_no_answer(client: httpx.Client, text: str) -> None:
    headers = {"content-type": text, "ce_subject": text, "ce_evil": text, text: text}
    event = json.dumps({"text": text, "key": text, "headers": headers})

    posted = client.post(EVENTS, content=event, headers={"content-type": LINES})
    offset = posted.raise_for_status().json()["positions"][0]["offset"]

    one = client.get(f"{EVENTS}/0/{offset}")
    assert (one.status_code, one.content.decode()) == (200, text)
    assert "x-evil" not in one.headers
    # A browser neither guesses what it is nor runs it.
    assert one.headers["x-content-type-options"] == "nosniff"
    assert one.headers["content-disposition"] == "attachment"
    read = client.get(f"{EVENTS}?from={offset}").json()["events"]
    assert (read[0]["text"], read[0]["key"], read[0]["headers"]) == (text, text, headers)
    lines = client.get(f"{EVENTS}?from={offset}", headers={"accept": NDJSON}).content
    assert len(lines.splitlines()) == 1
    accept = {"accept": "text/event-stream"}
    with client.stream("GET", f"{EVENTS}?from={offset}", headers=accept) as stream:
        said = b""
        for piece in stream.iter_raw():
            said += piece
            if said.count(b"\n\n") == 2:
                break
    names = [line.partition(b":")[0] for line in said.strip().split(b"\n") if line]
    assert names == [b"retry", b"id", b"id", b"data"]


def test_more_idle_connections_and_long_polls_than_there_may_be(
    process: Process, client: httpx.Client
) -> None:
    at, admin = process.addresses["http"], process.admin
    with process.within_bounds(), beside(Healthy(process), process):
        idle = [connected(at) for _ in range(500)]
        idle += [connected(admin) for _ in range(300)]
        polls = [connected(at) for _ in range(300)]
        try:
            for each in polls:
                each.sendall(
                    b"GET %b?wait_s=60 HTTP/1.1\r\nHost: localhost\r\n\r\n" % EVENTS.encode()
                )
            for _ in range(10):
                assert httpx.get(f"http://{admin}/livez", trust_env=False).text == "ok\n"
            client.post(EVENTS, json="for all").raise_for_status()
            # Who waits for an event does not give way to those that say nothing.
            for each in polls:
                assert each.recv(4096).startswith(b"HTTP/1.1 200")
        finally:
            for each in (*idle, *polls):
                each.close()


def test_a_websocket_that_only_asks_and_never_reads_is_dropped(process: Process) -> None:
    def dropped() -> float:
        return process.metric("mainstem_http_slow_clients_total")

    before = dropped()
    with (
        process.within_bounds(),
        beside(Healthy(process), process),
        connect(f"ws://{process.addresses['http']}/ws", proxy=None, max_queue=1) as socket,
    ):
        # It is not listened to any more by then.
        socket.socket.settimeout(2)
        with pytest.raises((ConnectionClosed, TimeoutError)):
            _ask_without_end(socket)
        until(lambda: dropped() > before, lambda: None)


def _ask_without_end(socket: ClientConnection) -> None:
    while True:
        socket.send('{"do": "nonsense", "ref": "%s"}' % ("x" * 1000))


def test_a_filter_that_takes_long_gives_others_their_turn(
    process: Process, client: httpx.Client
) -> None:
    value = json.dumps({"a": ["x" * 1000] * 100})
    client.post(
        "/topics/long/events", content=(value + "\n") * 100, headers={"content-type": NDJSON}
    ).raise_for_status()
    many = [f"value.a.{each}~y" for each in range(16)]
    with process.within_bounds(), beside(Healthy(process), process):
        assert client.get("/topics/long/events", params={"filter": many}).json()["events"] == []
        refused = client.get("/topics/long/events", params={"filter": [*many, "key==a"]})
        assert refused.status_code == 400
