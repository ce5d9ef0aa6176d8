"""RabbitMQ's management API on a real server, with pika beside it."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika  # type: ignore[import-untyped]
import pytest
from tests.heads.amqp_management.serving import LISTENING, amqp_url, client, managed
from tests.processes import wait_until

from mainstem.auth import Action, Auth, Credentials, Peer, Principal, Resource, deny_all
from mainstem.core.errors import Unauthenticated
from mainstem.heads.amqp_management.routes import ROUTES
from mainstem.node.server import Running

NO_BODY: dict[str, Any] = {}
DURABLE = {"durable": True}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with managed() as found:
        yield found


@pytest.fixture
def api(running: Running) -> Iterator[httpx.Client]:
    with client(running) as found:
        yield found


@pytest.fixture
def amqp(running: Running) -> Iterator[pika.BlockingConnection]:
    parameters = pika.URLParameters(amqp_url(running))
    parameters.client_properties = {"connection_name": "tester"}
    connection = pika.BlockingConnection(parameters)
    yield connection
    if connection.is_open:
        connection.close()


def done(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Return status and kind of an error, which must have a reason."""
    assert answer.json()["reason"]
    return answer.status_code, answer.json()["error"]


# Queues, exchanges, bindings


def test_a_queue_is_declared_shown_and_deleted(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    at = "/queues/%2F/with%20space%2Fslash"
    assert api.put(at, json=DURABLE | {"arguments": {"x-max-length": 3}}).status_code == 201
    assert api.put(at, json=DURABLE | {"arguments": {"x-max-length": 3}}).status_code == 204
    assert refused(api.put(at, json={"arguments": {"x-max-length": 3}})) == (400, "bad_request")
    other = api.put(at, json=DURABLE | {"arguments": {"x-max-length": 4}})
    assert refused(other) == (400, "bad_request")
    assert "inequivalent arg 'x-max-length'" in other.json()["reason"]

    amqp.channel().queue_declare("with space/slash", passive=True)
    shown = done(api.get(at))
    assert (shown["name"], shown["vhost"]) == ("with space/slash", "/")
    assert shown["arguments"] == {"x-max-length": 3}
    assert shown["durable"] is True
    assert "with space/slash" in [each["name"] for each in done(api.get("/queues/"))]

    assert api.delete(at).status_code == 204
    assert refused(api.delete(at)) == (404, "not_found")
    assert refused(api.get(at)) == (404, "not_found")


def test_a_queue_in_use_or_with_messages_is_not_deleted_if_that_is_asked(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    channel = amqp.channel()
    channel.queue_declare("used", durable=True)
    channel.basic_consume("used", lambda *_: None)
    assert refused(api.delete("/queues/%2F/used?if-unused=true")) == (400, "bad_request")
    channel.close()
    publish(api, "used", "1")
    assert refused(api.delete("/queues/%2F/used?if-empty=true")) == (400, "bad_request")
    assert api.delete("/queues/%2F/used/contents").status_code == 204
    assert api.delete("/queues/%2F/used?if-empty=true&if-unused=true").status_code == 204


def test_an_exclusive_queue_is_shown_and_belongs_to_its_connection(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    name = amqp.channel().queue_declare("", exclusive=True).method.queue
    shown = done(api.get(f"/queues/%2F/{name}"))
    assert shown["exclusive"] is True
    assert shown["owner_pid_details"]["name"] in [
        each["name"] for each in done(api.get("/connections"))
    ]
    assert refused(api.delete(f"/queues/%2F/{name}")) == (400, "bad_request")
    assert refused(api.put("/queues/%2F/mine", json={"exclusive": True})) == (400, "bad_request")


def test_exchanges_and_bindings_are_created_listed_and_deleted(api: httpx.Client) -> None:
    api.put("/queues/shop/q", json=NO_BODY)
    assert api.put("/exchanges/shop/e", json={"type": "headers"}).status_code == 201
    assert api.put("/exchanges/shop/e", json={"type": "headers"}).status_code == 204
    assert refused(api.put("/exchanges/shop/e", json={"type": "fanout"})) == (400, "bad_request")
    assert refused(api.put("/exchanges/shop/f", json={"type": "odd"})) == (400, "bad_request")
    assert done(api.get("/exchanges/shop/e"))["type"] == "headers"
    names = [each["name"] for each in done(api.get("/exchanges/shop"))]
    assert {"", "amq.topic", "e"} <= set(names)

    at = "/bindings/shop/e/e/q/q"
    match = {"arguments": {"x-match": "all", "n": 7}, "routing_key": "k"}
    created = api.post(at, json=match)
    assert created.status_code == 201
    key = created.headers["location"].removeprefix("q/")
    assert api.post(at, json=match).headers["location"] == f"q/{key}"
    assert api.post(at, json=NO_BODY).headers["location"] == "q/~"
    shown = done(api.get(f"{at}/{key}"))
    assert shown["arguments"] == match["arguments"]
    assert len(done(api.get(at))) == 2
    assert len(done(api.get("/queues/shop/q/bindings"))) == 3
    assert len(done(api.get("/exchanges/shop/e/bindings/source"))) == 2
    assert len(done(api.get("/bindings/shop"))) == 3
    assert api.delete(f"{at}/{key}").status_code == 204
    assert refused(api.delete(f"{at}/{key}")) == (404, "not_found")
    assert refused(api.get(f"{at}/{key}")) == (404, "not_found")

    to_exchange = "/bindings/shop/e/amq.direct/e/e"
    assert api.post(to_exchange, json={"routing_key": "x"}).status_code == 201
    (only,) = done(api.get("/exchanges/shop/e/bindings/destination"))
    assert (only["source"], only["routing_key"]) == ("amq.direct", "x")
    assert refused(api.delete("/exchanges/shop/e?if-unused=true")) == (400, "bad_request")
    assert api.delete("/exchanges/shop/e").status_code == 204
    assert refused(api.delete("/exchanges/shop/e")) == (404, "not_found")
    assert refused(api.delete("/exchanges/shop/amq.direct")) == (400, "bad_request")
    api.delete("/queues/shop/q")


# Messages


def publish(api: httpx.Client, key: str, payload: str, **more: Any) -> Any:
    body = {"routing_key": key, "payload": payload, "payload_encoding": "string", **more}
    return done(api.post("/exchanges/%2F/amq.default/publish", json=body))


def test_a_published_message_reaches_a_client_with_its_properties(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    channel = amqp.channel()
    channel.queue_declare("there", durable=True)
    properties = {"delivery_mode": 2, "headers": {"a": 1, "b": [True]}, "type": "greeting"}
    assert publish(api, "there", "héllo", properties=properties) == {"routed": True}
    assert publish(api, "nowhere", "hello") == {"routed": False}
    body = {"routing_key": "k", "payload": "x"}
    answer = api.post("/exchanges/%2F/nothing/publish", json=body)
    assert refused(answer) == (400, "bad_request")

    _, got, body = channel.basic_get("there", auto_ack=True)
    assert got is not None
    assert (got.delivery_mode, got.headers, got.type) == (2, {"a": 1, "b": [True]}, "greeting")
    assert body == "héllo".encode()
    channel.queue_delete("there")


def test_messages_are_got_and_put_back_or_taken(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    channel = amqp.channel()
    channel.queue_declare("got", durable=True)
    channel.basic_publish("amq.direct", "nowhere", b"?")
    channel.queue_bind("got", "amq.direct", "key")
    sent = pika.BasicProperties(content_type="text/plain", headers={"n": 1})
    channel.basic_publish("amq.direct", "key", b"text", sent)
    channel.basic_publish("", "got", b"\xff\x00")

    def get(ackmode: str, **more: Any) -> Any:
        body = {"count": 5, "ackmode": ackmode, "encoding": "auto", **more}
        return done(api.post("/queues/%2F/got/get", json=body))

    first, second = get("ack_requeue_true")
    assert first == {
        "exchange": "amq.direct",
        "routing_key": "key",
        "redelivered": False,
        "message_count": 1,
        "properties": {"content_type": "text/plain", "headers": {"n": 1}},
        "payload_bytes": 4,
        "payload": "text",
        "payload_encoding": "string",
    }
    assert (second["payload"], second["payload_encoding"]) == (
        base64.b64encode(b"\xff\x00").decode(),
        "base64",
    )
    # In the same order as before.
    again, _ = get("reject_requeue_true", truncate=2)
    assert (again["payload"], again["payload_bytes"], again["redelivered"]) == ("te", 4, True)
    assert [each["payload_bytes"] for each in get("ack_requeue_false")] == [4, 2]
    assert get("ack_requeue_false") == []
    wrong = api.post("/queues/%2F/got/get", json={"count": 1, "ackmode": "perhaps"})
    assert refused(wrong) == (400, "bad_request")
    channel.queue_delete("got")


def test_a_rejected_message_is_dead_lettered(api: httpx.Client) -> None:
    to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
    api.put("/queues/%2F/graves", json=NO_BODY)
    api.put("/queues/%2F/strict", json={"arguments": to})
    publish(api, "strict", "x")
    done(api.post("/queues/%2F/strict/get", json={"count": 1, "ackmode": "reject_requeue_false"}))
    (dead,) = done(
        api.post("/queues/%2F/graves/get", json={"count": 1, "ackmode": "ack_requeue_false"})
    )
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


def test_a_full_queue_refuses_what_is_published(api: httpx.Client) -> None:
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    api.put("/queues/%2F/small", json={"arguments": limits})
    publish(api, "small", "1")
    body = {"routing_key": "small", "payload": "2", "payload_encoding": "string"}
    answer = api.post("/exchanges/%2F/amq.default/publish", json=body)
    assert answer.status_code == 503
    assert "full" in answer.json()["reason"]


def test_the_counts_of_a_queue_are_those_of_its_clients(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    channel = amqp.channel()
    channel.queue_declare("counted", durable=True)
    channel.basic_qos(prefetch_count=2)
    for _ in range(5):
        publish(api, "counted", "x")
    channel.basic_consume("counted", lambda *_: None, consumer_tag="c")

    def counts() -> tuple[int, ...]:
        names = ("messages", "messages_ready", "messages_unacknowledged", "consumers")
        shown = done(api.get("/queues/%2F/counted"))
        return tuple(shown[name] for name in names)

    wait_until(lambda: counts() == (5, 3, 2, 1), lambda: str(counts()))
    (consumer,) = done(api.get("/queues/%2F/counted"))["consumer_details"]
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("c", 2)
    (mine,) = [each for each in done(api.get("/channels")) if each["consumer_count"]]
    assert mine["messages_unacknowledged"] == 2
    overview = done(api.get("/overview"))
    assert overview["queue_totals"]["messages_unacknowledged"] >= 2
    assert overview["object_totals"]["consumers"] == 1
    channel.close()


# Connections


def test_a_connection_is_listed_with_its_channels_and_closed(
    api: httpx.Client, amqp: pika.BlockingConnection
) -> None:
    channel = amqp.channel()
    channel.confirm_delivery()
    (mine,) = [
        each
        for each in done(api.get("/connections/"))
        if each.get("user_provided_name") == "tester"
    ]
    assert (mine["user"], mine["vhost"], mine["state"]) == ("guest", "/", "running")
    assert mine["channels"] == 1
    assert "password" not in json.dumps(mine)
    name = httpx.URL("/connections/" + mine["name"])
    assert done(api.get(name)) == mine
    (channel_shown,) = done(api.get(f"{name}/channels"))
    assert (channel_shown["number"], channel_shown["confirm"]) == (1, True)

    assert api.delete(name, headers={"X-Reason": "tidying up"}).status_code == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="tidying up"):
        amqp.process_data_events(None)
    wait_until(lambda: api.get(name).status_code == 404, "the connection is still listed")
    assert refused(api.delete(name)) == (404, "not_found")


def test_the_connections_of_a_user_are_listed_and_closed(running: Running) -> None:
    parameters = pika.URLParameters(amqp_url(running).replace("guest:guest", "ann:x"))
    connection = pika.BlockingConnection(parameters)
    with client(running) as api:
        (mine,) = done(api.get("/connections/username/ann"))
        assert mine["user"] == "ann"
        assert api.delete("/connections/username/ann").status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED"):
            connection.process_data_events(None)
        wait_until(lambda: done(api.get("/connections/username/ann")) == [], "still listed")


# Definitions


def test_definitions_that_are_exported_can_be_imported_elsewhere(tmp_path: Path) -> None:
    with managed(tmp_path / "one") as one, client(one) as api:
        api.put("/exchanges/%2F/events", json=DURABLE | {"type": "topic"})
        api.put("/exchanges/%2F/passing", json={"type": "fanout"})
        api.put("/queues/%2F/orders", json=DURABLE | {"arguments": {"x-message-ttl": 60000}})
        api.put("/queues/%2F/passing", json=NO_BODY)
        api.put("/queues/shop/orders", json=DURABLE)
        api.post("/bindings/%2F/e/events/q/orders", json={"routing_key": "#"})
        exported = done(api.get("/definitions"))
        of_shop = done(api.get("/definitions/shop"))
    assert [each["name"] for each in exported["exchanges"]] == ["events"]
    assert [each["name"] for each in exported["queues"]] == ["orders", "orders"]
    assert [each["name"] for each in of_shop["queues"]] == ["orders"]
    assert "vhost" not in of_shop["queues"][0]

    with managed(tmp_path / "two") as two, client(two) as api:
        assert api.post("/definitions", json=exported).status_code == 204
        assert api.post("/definitions/shop", json=of_shop).status_code == 204
        assert done(api.get("/definitions")) == exported
    with managed(tmp_path / "two") as two, client(two) as api:
        assert done(api.get("/definitions")) == exported


def test_an_import_says_what_it_left_out_and_what_it_refuses(api: httpx.Client) -> None:
    users = {"users": [{"name": "a"}], "queues": [{"name": "i", "vhost": "/", "arguments": {}}]}
    assert done(api.post("/definitions", json=users)) == {"skipped": ["users"]}
    assert api.get("/queues/%2F/i").status_code == 200
    policies = {"policies": [{"name": "p"}], "queues": [{"name": "j", "vhost": "/"}]}
    assert refused(api.post("/definitions", json=policies)) == (400, "bad_request")
    assert api.get("/queues/%2F/j").status_code == 404
    wrong = api.post("/definitions", json={"exchanges": [{"name": "x", "vhost": "/", "type": "y"}]})
    assert refused(wrong) == (400, "bad_request")
    assert "exchange 'x'" in wrong.json()["reason"]
    assert refused(api.post("/definitions", json={"queues": [{"name": "k"}]})) == (
        400,
        "bad_request",
    )
    assert refused(api.post("/definitions", content=b"[" * 100_000)) == (400, "bad_request")


# Lists


def test_lists_are_paged_sorted_filtered_and_cut_to_columns(api: httpx.Client) -> None:
    for number in range(12):
        api.put(f"/queues/paged/q{number:02}", json=NO_BODY)
    first = done(api.get("/queues/paged?page=1&page_size=5&columns=name"))
    assert first["items"] == [{"name": f"q{number:02}"} for number in range(5)]
    assert (first["page_count"], first["total_count"], first["item_count"]) == (3, 12, 5)
    last = done(api.get("/queues/paged?page=3&page_size=5"))
    assert [each["name"] for each in last["items"]] == ["q10", "q11"]
    assert done(api.get("/queues/paged?page=1&name=Q1"))["filtered_count"] == 2
    down = done(api.get("/queues/paged?sort=name&sort_reverse=true&columns=name"))
    assert [each["name"] for each in down][:2] == ["q11", "q10"]
    inner = done(api.get("/queues/paged?columns=message_stats.redeliver"))[0]
    assert inner == {"message_stats": {"redeliver": 0}}
    for query in ("page=4&page_size=5", "page=0", "page=1&page_size=501", "page=x"):
        assert refused(api.get(f"/queues/paged?{query}")) == (400, "bad_request"), query
    assert refused(api.get("/queues/paged?page=1&use_regex=true&name=.*")) == (400, "bad_request")


# The server


def test_the_server_is_described_and_healthy(running: Running, api: httpx.Client) -> None:
    overview = done(api.get("/overview"))
    assert overview["product_name"] == "mainstem"
    assert {each["protocol"] for each in overview["listeners"]} >= {"amqp", "amqp_management"}
    (node,) = done(api.get("/nodes"))
    assert done(api.get(f"/nodes/{node['name']}"))["name"] == node["name"]
    assert node["mem_used"] > 0
    assert done(api.get("/whoami")) == {"name": "guest", "tags": ["administrator"]}
    assert done(api.get("/cluster-name"))["name"] == node["name"]
    assert done(api.get("/extensions")) == []
    port = running.addresses["amqp"].port
    for check in (
        "aliveness-test/%2F",
        "health/checks/alarms",
        "health/checks/node-is-quorum-critical",
        "health/checks/certificate-expiration/1/days",
        f"health/checks/port-listener/{port}",
        "health/checks/protocol-listener/amqp",
    ):
        assert done(api.get(f"/{check}"))["status"] == "ok", check
    assert api.get("/health/checks/port-listener/1").status_code == 503
    assert api.get("/health/checks/protocol-listener/mqtt").status_code == 503
    assert not [it for it in done(api.get("/queues")) if it["name"].startswith("aliveness")]


def test_what_is_not_supported_is_refused_with_a_reason(api: httpx.Client) -> None:
    for path in ("users", "policies/%2F", "parameters/shovel/%2F", "vhost-limits/%2F"):
        assert refused(api.put(f"/{path}/x", json=NO_BODY)) == (400, "bad_request"), path
    for path in ("policies", "parameters", "operator-policies", "vhost-limits"):
        assert done(api.get(f"/{path}")) == [], path
    assert api.put("/vhosts/any", json=NO_BODY).status_code == 204
    assert refused(api.delete("/vhosts/nothing")) == (404, "not_found")
    assert refused(api.get("/nothing")) == (404, "not_found")
    wrong = api.patch("/queues", json=NO_BODY)
    assert refused(wrong) == (405, "method_not_allowed")
    assert wrong.headers["allow"] == "GET"
    assert refused(api.get("/queues/%FF")) == (400, "bad_request")
    foreign = {"Origin": "https://evil.example"}
    assert api.put("/queues/%2F/evil", json=NO_BODY, headers=foreign).status_code == 403


def test_without_amqp_it_says_how_to_turn_it_on() -> None:
    with managed(config=LISTENING.listening(amqp="off")) as running, client(running) as api:
        answer = api.get("/queues")
        assert answer.status_code == 503
        assert "--amqp" in answer.json()["reason"]


def test_who_may_nothing_sees_and_changes_nothing() -> None:
    """Every address, by every method it has."""
    asked: list[tuple[Action, Resource]] = []

    def authorize(principal: Principal, action: Action, resource: Resource) -> None:
        asked.append((action, resource))
        deny_all(principal, action, resource)

    open_to_all = {"whoami", "cluster-name", "extensions", "feature-flags", "deprecated-features"}
    with managed(auth=Auth(authorize=authorize)) as running, client(running) as api:
        running.node.broker.create_topic("orders")
        for route in ROUTES:
            if route.path[1] in open_to_all:
                continue
            path = "/".join("orders" if it.startswith("{") else it for it in route.path[1:])
            path = path.replace("/e/orders/orders/", "/e/orders/q/")
            body = {"type": "topic", "routing_key": "k", "payload": "", "count": 1}
            body |= {"ackmode": "ack_requeue_true"}
            answer = api.request(route.method, f"/{path}", json=body)
            is_empty = answer.status_code == 200 and answer.json() == []
            refusals = (400, 401, 404, 503)
            assert answer.status_code in refusals or is_empty, (route, answer.text)
            assert "orders" not in answer.text or answer.status_code != 200
        assert done(api.get("/whoami"))["tags"] == ["management"]
    assert asked


def test_who_fails_to_log_in_is_told_so() -> None:
    def authenticate(_mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
        raise Unauthenticated(peer.address, "the password is wrong")

    with managed(auth=Auth(authenticate=authenticate)) as running, client(running) as api:
        answer = api.get("/whoami")
        assert refused(answer) == (401, "not_authorised")
        assert answer.headers["www-authenticate"].startswith("Basic")
