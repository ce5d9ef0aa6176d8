"""The CloudEvents SDK publishes and reads, in every mode, and finds in Kafka what came by HTTP."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings import http, kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka import Consumer, Producer
from tests.foreign_clients.compatibility import HTTP
from tests.foreign_clients.http.http_server import EVENTS

from mainstem.node.server import Running

BATCH = "application/cloudevents-batch+json"
FORMAT = JSONFormat()
NOT_ITS_OWN = "the SDK encodes and decodes messages, which another client sends"
pytestmark = [
    pytest.mark.client("CloudEvents SDK", "2.2", HTTP),
    pytest.mark.lacks("follow", NOT_ITS_OWN),
    pytest.mark.lacks("WebSocket", NOT_ITS_OWN),
    pytest.mark.lacks("queues", NOT_ITS_OWN),
]


@pytest.fixture
def client(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{running.addresses['http']}", trust_env=False) as found:
        yield found


def made(number: int, data: object, kind: str | None = "application/json") -> CloudEvent:
    attributes: dict[str, Any] = {
        "id": f"event {number} ü",
        "source": "https://shop.example/orders?a=1",
        "type": "order.placed",
        "specversion": "1.0",
        "time": datetime(2026, 1, 31, 12, 0, number, 500_000, UTC),
        "subject": '100% "sure"',
        "tenant": "a-b",
        "partitionkey": f"key-{number}",
    }
    if kind is not None:
        attributes["datacontenttype"] = kind
    return CloudEvent(attributes, data)  # type: ignore[arg-type]


EVENTS_MADE = [
    made(1, {"id": 1, "deep": [1, {"a": None}]}),
    made(2, "text ü", "text/plain"),
    made(3, b"\x00\xff", "application/octet-stream"),
]


def same(found: Any, wanted: CloudEvent, *, data: object = None) -> None:
    assert found.get_attributes() == wanted.get_attributes()
    assert found.get_data() == (wanted.get_data() if data is None else data)


@pytest.mark.shows("publish", "binary", "structured")
@pytest.mark.shows("read", "binary", "structured")
@pytest.mark.parametrize("event", EVENTS_MADE, ids=["json", "text", "bytes"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_an_event_goes_in_by_one_mode_and_comes_out_by_each(
    client: httpx.Client, name: str, event: CloudEvent, mode: str
) -> None:
    write = http.to_binary if mode == "binary" else http.to_structured
    message = write(event, FORMAT)

    path = EVENTS.format(name)
    client.post(path, content=message.body, headers=message.headers).raise_for_status()

    raw = client.get(f"{path}/0/0")
    found = http.from_http(http.HTTPMessage(dict(raw.headers), raw.content), FORMAT)
    same(found, event)
    one = client.get(f"{path}/0/0", headers={"accept": "application/cloudevents+json"})
    same(http.from_http(http.HTTPMessage(dict(one.headers), one.content), FORMAT), event)
    (each,) = client.get(path, headers={"accept": BATCH}).json()
    assert each["id"] == event.get_id()
    stored = client.get(path).json()["events"][0]
    assert stored["key"] == event.get_attributes()["partitionkey"]


@pytest.mark.shows("publish", "batches")
@pytest.mark.shows("read", "batches")
def test_a_batch_goes_in_and_comes_out(client: httpx.Client, name: str) -> None:
    body = b"[" + b",".join(http.to_structured(each, FORMAT).body for each in EVENTS_MADE) + b"]"

    path = EVENTS.format(name)
    answer = client.post(path, content=body, headers={"content-type": BATCH})

    assert len(answer.json()["positions"]) == 3
    read = client.get(path, headers={"accept": BATCH})
    assert read.headers["content-type"] == BATCH
    assert read.headers["mainstem-next"] == "0:3"
    for found, event in zip(read.json(), EVENTS_MADE, strict=True):
        kind = {"content-type": "application/cloudevents+json"}
        message = http.HTTPMessage(kind, json.dumps(found).encode())
        same(http.from_http(message, FORMAT), event)


def test_what_is_no_cloudevent_is_read_as_one(client: httpx.Client, name: str) -> None:
    path = EVENTS.format(name)
    client.post(f"{path}?key=k", json={"id": 1}).raise_for_status()

    raw = client.get(f"{path}/0/0")

    found: Any = http.from_http(http.HTTPMessage(dict(raw.headers), raw.content), FORMAT)
    assert (found.get_id(), found.get_source()) == ("0:0", f"/topics/{name}")
    assert found.get_data() == {"id": 1}
    assert found.get_attributes()["partitionkey"] == "k"


@pytest.mark.shows("publish", "events that Kafka consumers read with the SDK")
def test_kafka_consumers_with_the_sdk_read_what_came_by_http(
    client: httpx.Client, running: Running, name: str
) -> None:
    path = EVENTS.format(name)
    message = http.to_structured(EVENTS_MADE[0], FORMAT)
    client.post(path, content=message.body, headers=message.headers).raise_for_status()

    settings = {
        "bootstrap.servers": str(running.kafka),
        "group.id": name,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([name])
        record = consumer.poll(60)
    finally:
        consumer.close()

    assert record is not None
    headers = dict(record.headers() or [])
    found: Any = kafka.from_kafka_event(
        kafka.KafkaMessage(headers, record.key(), record.value())  # type: ignore[arg-type]
    )
    assert found.get_data() == {"id": 1, "deep": [1, {"a": None}]}
    assert found.get_id().startswith("event 1")


@pytest.mark.shows("read", "events that Kafka producers published with the SDK")
def test_what_kafka_producers_with_the_sdk_publish_is_a_cloudevent_over_http(
    client: httpx.Client, running: Running, name: str
) -> None:
    attributes = {"id": "7", "source": "shop", "type": "t", "specversion": "1.0"}
    event = CloudEvent({**attributes, "datacontenttype": "application/json"}, {"id": 7})
    message = kafka.to_binary_event(event)
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": str(running.kafka)})
    producer.produce(
        name,
        message.value,
        message.key,
        headers=[*message.headers.items()],
        partition=0,
        on_delivery=lambda error, _: failed.append(error),
    )
    assert producer.flush(60) == 0
    del producer
    assert failed == [None]

    raw = client.get(f"{EVENTS.format(name)}/0/0")

    same(http.from_http(http.HTTPMessage(dict(raw.headers), raw.content), FORMAT), event)


@pytest.mark.parametrize(
    "body",
    [
        b'{"specversion":"1.0","id":"1","source":"a"}',
        b'{"specversion":"0.3","id":"1","source":"a","type":"t"}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"t","Bad":"x"}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"t","x":{"a":1}}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"t","data":1,"data_base64":"YQ=="}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"t","data_base64":"?"}',
        b"[]",
        b"",
    ],
)
def test_what_is_no_cloudevent_is_refused(client: httpx.Client, name: str, body: bytes) -> None:
    kind = {"content-type": "application/cloudevents+json"}

    answer = client.post(EVENTS.format(name), content=body, headers=kind)

    assert (answer.status_code, answer.json()["failure"]) == (400, "invalid")
    wrong = {"ce-specversion": "1.0", "ce-id": "1", "content-type": "text/plain"}
    binary = client.post(EVENTS.format(name), content=b"x", headers=wrong)
    assert binary.status_code == 400
