"""Whatever is asked of the management API, the answer is RabbitMQ's, and the server goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pika  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.heads.amqp_management.serving import amqp_url, client, managed
from tests.heads.server_process import Process

from mainstem.heads.amqp_management.routes import ROUTES, Route

NAMES = st.sampled_from(["/", "orders", "amq.default", "amq.topic", "q", "e", "~", "0", ""])
TEXTS = NAMES | st.text(st.characters(codec="utf-8"), max_size=300)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS = {
    "arguments": {"x-max-length": 5},
    "type": "topic",
    "routing_key": "orders",
    "payload": "eA==",
    "payload_encoding": "base64",
    "properties": {"priority": 1, "headers": {"a": 1}},
    "count": 2,
    "ackmode": "ack_requeue_true",
    "encoding": "auto",
    "truncate": 1,
    "durable": True,
    "queues": [{"name": "orders", "vhost": "/"}],
    "exchanges": [{"name": "shop", "vhost": "/", "type": "topic"}],
    "bindings": [
        {"source": "shop", "vhost": "/", "destination": "orders", "destination_type": "queue"}
    ],
}
"""Fields that are asked for somewhere, as they should be."""
QUERIES = ("page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "if-empty")


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    with managed() as running, client(running) as found:
        yield found


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a body: as it should be but for a few fields, any JSON, or any bytes."""
    wrong = draw(st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES, max_size=3))
    value = draw(st.just(FIELDS | wrong) | VALUES)
    return draw(st.just(json.dumps(value).encode()) | st.binary(max_size=50))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], bytes]:
    """Draw a request for one of the addresses."""
    route: Route = draw(st.sampled_from(ROUTES))
    segments = [
        quote(draw(TEXTS), safe="") if each.startswith("{") else each for each in route.path[1:]
    ]
    query = draw(st.dictionaries(st.sampled_from(QUERIES), TEXTS | st.just("1"), max_size=3))
    return route.method, "/" + "/".join(segments), query, draw(bodies())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(asked=requests())
def test_no_request_fails_inside(
    api: httpx.Client, asked: tuple[str, str, dict[str, str], bytes]
) -> None:
    method, path, query, body = asked
    answer = api.request(method, path, params=query, content=body)
    assert answer.status_code in (200, 201, 204, 400, 401, 404, 405, 413, 503), answer.text
    if answer.status_code == 503:
        assert "full" in answer.text or answer.json()["status"] == "failed", answer.text
    elif answer.status_code >= 400:
        assert answer.json()["reason"], answer.text


def test_bodies_that_say_much_about_nothing_take_little_memory(tmp_path: Path) -> None:
    path, free = tmp_path / "data", "127.0.0.1:0"
    with Process(path, amqp__listen=free, amqp_management__listen=free) as server:
        at = f"http://{server.addresses['amqp_management']}/api/definitions"
        large = b'{"users": [%s{}], "nothing": [%s0]}' % (b"{}," * 2_000_000, b"[]," * 2_000_000)
        with server.within_bounds():
            for _ in range(3):
                assert httpx.post(at, content=large, timeout=60).status_code == 200


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    path, free = tmp_path / "data", "127.0.0.1:0"
    with Process(path, amqp__listen=free, amqp_management__listen=free) as server:
        at = f"http://{server.addresses['amqp_management']}/api"
        httpx.put(f"{at}/queues/%2F/kept", json={"durable": True})
        httpx.put(f"{at}/exchanges/%2F/news", json={"durable": True, "type": "fanout"})
        httpx.post(f"{at}/bindings/%2F/e/news/q/kept", json={})
        message = {"routing_key": "", "payload": "1", "properties": {"delivery_mode": 2}}
        assert httpx.post(f"{at}/exchanges/%2F/news/publish", json=message).json()["routed"]
    with Process(path, amqp__listen=free, amqp_management__listen=free) as server:
        at = f"http://{server.addresses['amqp_management']}/api"
        taking = {"count": 5, "ackmode": "ack_requeue_false"}
        found = httpx.post(f"{at}/queues/%2F/kept/get", json=taking).json()
        assert [each["payload"] for each in found] == ["1"]
        assert len(httpx.get(f"{at}/exchanges/%2F/news/bindings/source").json()) == 1


def test_a_body_over_the_limit_is_refused(api: httpx.Client) -> None:
    answer = api.post("/definitions", content=b" " * (17 * 1024 * 1024))
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/queues/%2F/x", {"arguments": {"x-max-length": 2**70}}),
        ("/queues/%2F/x", {"arguments": {"k" * 256: 1}}),
        ("/queues/%2F/" + "x" * 256, {}),
        ("/queues/" + "x" * 256 + "/q", {}),
        ("/exchanges/%2F/" + "x" * 256, {"type": "topic"}),
        ("/exchanges/%2F/x", {"type": "topic", "arguments": {"a": {"b": [2**70]}}}),
    ],
)
def test_what_no_client_could_declare_is_refused(
    api: httpx.Client, path: str, body: dict[str, object]
) -> None:
    answer = api.put(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["reason"]


def test_a_queue_is_declared_while_its_deletion_is_being_stored(tmp_path: Path) -> None:
    with managed(tmp_path) as running, client(running) as api:
        connection = pika.BlockingConnection(pika.URLParameters(amqp_url(running)))
        channel = connection.channel()
        for _ in range(10):
            assert api.put("/queues/%2F/again", json={"durable": True}).status_code == 201
            # Without waiting for the answer, but until it was read.
            channel._impl.queue_delete("again", callback=None)
            channel.basic_qos(prefetch_count=1)
            assert api.put("/queues/%2F/again", json={"durable": True}).status_code == 201
            api.delete("/queues/%2F/again")
        connection.close()
