"""httpx, unmodified: publish, read, follow, and share events by a queue."""

import json

import httpx
import pytest
from tests.foreign_clients.compatibility import HTTP
from tests.foreign_clients.http.http_server import EVENTS, EVERY, LINES, NDJSON, STREAM, values
from tests.loop_thread import PATIENCE_S

pytestmark = [
    pytest.mark.client("httpx", "0.28", HTTP),
    pytest.mark.lacks("WebSocket", "httpx has no WebSockets"),
]


@pytest.mark.shows("publish", "NDJSON", "multipart")
@pytest.mark.shows("read", "from a position, by a filter")
@pytest.mark.shows("follow", "Server-Sent Events")
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


@pytest.mark.shows("queues", "lease, ack, release")
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
