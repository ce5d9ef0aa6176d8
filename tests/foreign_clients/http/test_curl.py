"""curl, unmodified: publish, read, follow, and share events by a queue."""

import json
import shutil
import subprocess

import pytest
from tests.foreign_clients.compatibility import HTTP
from tests.foreign_clients.http.http_server import EVENTS, EVERY, LINES, values
from tests.loop_thread import PATIENCE_S

CURL = shutil.which("curl")
pytestmark = [
    pytest.mark.skipif(CURL is None, reason="curl is missing: apt-get install curl"),
    pytest.mark.client("curl", "7.88", HTTP),
    pytest.mark.lacks("WebSocket", "Debian's curl is built without WebSockets"),
]


@pytest.mark.shows(
    "publish", "JSON", "NDJSON", "chunked bodies", "Expect: 100-continue", "multipart"
)
@pytest.mark.shows("read", "with an offer of HTTP/2, which the server declines")
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


@pytest.mark.shows("follow", "Server-Sent Events")
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


@pytest.mark.shows("queues", "lease, ack, nack")
def test_curl_shares_a_queue(url: str, name: str) -> None:
    curl(f"{url}{EVENTS.format(name)}", "--json", '{"n": 0}')
    queue = f"{url}/topics/{name}/queues/workers"

    for action, count in (("nack", 1), ("ack", 2)):
        (taken,) = json.loads(curl(f"{queue}/leases?wait_s=20", "-X", "POST"))["deliveries"]
        assert (taken["event"]["value"], taken["count"]) == ({"n": 0}, count)
        curl(f"{queue}/deliveries/{taken['delivery']}/{action}", "-X", "POST")

    assert json.loads(curl(f"{queue}/leases", "-X", "POST"))["deliveries"] == []


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
