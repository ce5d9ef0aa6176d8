"""Events are published by POST: media types, key, headers, partition and time, and refusals."""

import asyncio
import base64
import gzip
from typing import Any

import httpx
import pytest
from tests.broker.brokers import publish, read_all
from tests.heads.http.serving import EVENTS, NDJSON, TOPIC, Client, create_full_topic, serve
from tests.heads.started import Started
from tests.heads.transport.echo import until

from mainstem.broker.door import HeldPublish
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.heads.http.settings import HttpSettings


def stored(server: Started, topic: str = TOPIC, partition: int = 0) -> list[Event]:
    return read_all(server.broker, topic, partition)


def problem(answer: httpx.Response, status: int, failure: str) -> str:
    """Return the detail of a problem, whose status and class of failure must be these."""
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert (answer.status_code, found["status"], found["failure"]) == (status, status, failure)
    return str(found["detail"])


@pytest.mark.parametrize(
    "value", [b'{"id":1}', b"[1,2]", b'"text"', b"12.50", b"true", b"null", b'{"a": "\xc3\xa9"}']
)
def test_any_json_value_is_one_event_stored_as_it_was_sent(value: bytes) -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await client.post(
            EVENTS, content=b" \n" + value + b"\n", headers={"content-type": "application/json"}
        )

        assert answer.json() == {"positions": [{"partition": 0, "offset": 0}]}
        assert [(it.value, it.headers) for it in stored(server)] == [(value, ())]

    serve(scenario)


def test_a_body_without_a_media_type_is_json() -> None:
    async def scenario(server: Started, client: Client) -> None:
        assert (await client.post(EVENTS, content=b"{}")).status_code == 200

        assert [it.value for it in stored(server)] == [b"{}"]

    serve(scenario)


def test_every_line_of_ndjson_is_an_event_and_all_are_one_append() -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await client.post(
            f"{EVENTS}?key=k", content=b'{"a":1}\r\n\n"two"\n3', headers=NDJSON
        )

        offsets = [position["offset"] for position in answer.json()["positions"]]
        assert offsets == [0, 1, 2]
        found = [(it.key, it.value) for it in stored(server)]
        assert found == [(b"k", b'{"a":1}'), (b"k", b'"two"'), (b"k", b"3")]

    serve(scenario)


def test_one_bad_line_refuses_all() -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await client.post(EVENTS, content=b'1\n2\n{"a"\n', headers=NDJSON)

        assert "is not JSON" in problem(answer, 400, "invalid")
        assert stored(server) == []

    serve(scenario)


@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"{'a':1}",
        b"1e999",
        b"[" * 100_000,
        b'"\\ud800"',
        b'"\xff"',
        b"",
        b"1 2",
        b"1" * 5000,
    ],
    ids=["NaN", "quotes", "1e999", "deep", "surrogate", "bytes", "empty", "two", "5,000 digits"],
)
def test_what_is_not_json_is_refused(value: bytes) -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await client.post(
            EVENTS, content=value, headers={"content-type": "application/json"}
        )

        problem(answer, 400, "invalid")
        assert stored(server) == []

    serve(scenario)


def test_other_media_types_are_stored_as_bytes_with_their_type() -> None:
    async def scenario(server: Started, client: Client) -> None:
        for kind, body in (
            ("text/plain; charset=utf-8", "schön".encode()),
            ("application/octet-stream", b"\0\xff"),
            ("image/png", b"\x89PNG"),
        ):
            assert (
                await client.post(EVENTS, content=body, headers={"content-type": kind})
            ).is_success

        assert [(it.value, it.headers) for it in stored(server)] == [
            ("schön".encode(), (("content-type", b"text/plain; charset=utf-8"),)),
            (b"\0\xff", ()),
            (b"\x89PNG", (("content-type", b"image/png"),)),
        ]

    serve(scenario)


async def post_parts(client: Client, *parts: tuple[str, Any]) -> httpx.Response:
    """Publish the parts of a multipart body: name, and file name, bytes, type and headers."""
    return await client.post(EVENTS, files=parts)


def test_each_part_of_a_multipart_body_is_an_event() -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await post_parts(
            client,
            ("a", ("a.json", b'{"id":1}', "application/json", {"Mainstem-Key": "k"})),
            ("b", ("b.bin", b"\r\n--\0", "application/octet-stream")),
            ("c", ("c.txt", b"text", "text/plain", {"Mainstem-Header-Source": "test"})),
        )

        assert len(answer.json()["positions"]) == 3
        assert [(it.key, it.value, it.headers) for it in stored(server)] == [
            (b"k", b'{"id":1}', ()),
            (None, b"\r\n--\0", ()),
            (None, b"text", (("source", b"test"), ("content-type", b"text/plain"))),
        ]

    serve(scenario)


def test_a_part_may_hold_many_events() -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await post_parts(
            client,
            ("a", ("a.ndjson", b'1\n{"id":2}\n', "application/x-ndjson")),
            ("b", ("b.jsonl", b"3", "application/jsonl", {"Mainstem-Key": "k"})),
            ("c", ("c", b'{"value": 4, "key": "own"}', "application/vnd.mainstem.events+json")),
        )

        assert len(answer.json()["positions"]) == 4
        assert [(it.key, it.value) for it in stored(server)] == [
            (None, b"1"),
            (None, b'{"id":2}'),
            (b"k", b"3"),
            (b"own", b"4"),
        ]

    serve(scenario)


def test_a_part_with_a_line_that_is_no_json_or_with_parts_is_refused() -> None:
    async def scenario(server: Started, client: Client) -> None:
        for body, kind, status in (
            (b"1\nno json\n", "application/x-ndjson", 400),
            (b"--b\r\n\r\none\r\n--b--", "multipart/mixed; boundary=b", 415),
        ):
            files = [("first", ("x", b"kept?", "text/plain")), ("second", ("y", body, kind))]
            assert (await client.post(EVENTS, files=files)).status_code == status

        assert stored(server) == []

    serve(scenario)


def test_a_multipart_body_that_is_cut_off_is_refused() -> None:
    async def scenario(server: Started, client: Client) -> None:
        kind = {"content-type": "multipart/mixed; boundary=b"}
        for body in (b"--b\r\n\r\none\r\n", b"--b--\r\n", b"", b"one"):
            problem(await client.post(EVENTS, content=body, headers=kind), 400, "invalid")

        assert stored(server) == []

    serve(scenario)


def test_key_headers_partition_and_time_come_from_the_query_or_from_headers() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.create_topic("many", TopicSettings(partitions=3))
        by_query = "key=k%C3%BC&header=a:1&header=b:x:y&partition=2&timestamp_ms=5"
        in_headers = {
            "Mainstem-Key": "k",
            "Mainstem-Header-A": "1",
            "Mainstem-Partition": "1",
            "Mainstem-Timestamp-Ms": "7",
        }

        first = await client.post(f"/topics/many/events?{by_query}", json=1)
        second = await client.post("/topics/many/events", json=2, headers=in_headers)

        assert first.json() == {"positions": [{"partition": 2, "offset": 0}]}
        assert second.json() == {"positions": [{"partition": 1, "offset": 0}]}
        (event,) = stored(server, "many", 2)
        assert (event.key, event.timestamp_ms) == ("kü".encode(), 5)
        assert event.headers == (("a", b"1"), ("b", b"x:y"))
        (event,) = stored(server, "many", 1)
        assert (event.key, event.timestamp_ms, event.headers) == (b"k", 7, (("a", b"1"),))

    serve(scenario)


def test_a_deleted_event_has_a_key_and_no_value() -> None:
    async def scenario(server: Started, client: Client) -> None:
        assert (await client.post(f"{EVENTS}?key=k&deleted=true")).is_success
        problem(await client.post(f"{EVENTS}?key=k&deleted=true", json=1), 400, "invalid")

        assert [(it.key, it.value) for it in stored(server)] == [(b"k", None)]

    serve(scenario)


def test_deleted_is_true_or_false() -> None:
    async def scenario(server: Started, client: Client) -> None:
        problem(await client.post(f"{EVENTS}?deleted=1", json=1), 400, "invalid")
        (await client.post(f"{EVENTS}?deleted=false", json=1)).raise_for_status()

        assert [each.value for each in stored(server)] == [b"1"]

    serve(scenario)


def test_what_was_read_can_be_published_as_it_is() -> None:
    events = [
        Event(b'{"a":1}', b"k", (("h", b"1"), ("h", b"2"), ("n", None)), 5),
        Event(b"text", b"\xff", (("b", b"\xfe"),), 6),
        Event(b"\xff\0", None, (), 7),
        Event(None, b"gone", (), 8),
    ]

    async def scenario(server: Started, client: Client) -> None:
        server.broker.publish(TOPIC, events).durable.wait(30)
        lines = {"accept": "application/x-ndjson"}
        read = await client.get(f"{EVENTS}?from=earliest", headers=lines)

        kind = {"content-type": "application/vnd.mainstem.events+json"}
        answer = await client.post("/topics/copy/events", content=read.content, headers=kind)

        assert len(answer.json()["positions"]) == 4
        copied = [(it.value, it.key, it.headers, it.timestamp_ms) for it in stored(server, "copy")]
        assert copied == [(it.value, it.key, it.headers, it.timestamp_ms) for it in events]

    serve(scenario)


@pytest.mark.parametrize(
    "line",
    [
        b'{"value":1,"text":"a"}',
        b'{"key":"a"}',
        b'{"value":1,"key":"a","key_base64":"YQ=="}',
        b'{"value":1,"kez":"a"}',
        b'{"value":1,"timestamp_ms":-5}',
        b"[]",
    ],
)
def test_an_event_that_contradicts_itself_is_refused(line: bytes) -> None:
    async def scenario(_: Started, client: Client) -> None:
        kind = {"content-type": "application/vnd.mainstem.events+json"}

        problem(await client.post(EVENTS, content=line, headers=kind), 400, "invalid")

    serve(scenario)


def test_gzip_is_unpacked_up_to_the_limit() -> None:
    async def scenario(server: Started, client: Client) -> None:
        kind = {"content-type": "application/json", "content-encoding": "gzip"}

        answer = await client.post(EVENTS, content=gzip.compress(b'{"a":1}'), headers=kind)
        bomb = await client.post(EVENTS, content=gzip.compress(b"1" * 10_000), headers=kind)

        assert answer.is_success
        assert bomb.status_code == 413
        assert [it.value for it in stored(server)] == [b'{"a":1}']

    serve(scenario, HttpSettings(max_body_bytes=5_000))


def test_too_many_events_or_bytes_are_refused() -> None:
    async def scenario(server: Started, client: Client) -> None:
        many = await client.post(EVENTS, content=b"1\n" * 11, headers=NDJSON)
        large = await client.post(EVENTS, content=b'"' + b"a" * 5_000 + b'"')

        assert (many.status_code, large.status_code) == (413, 413)
        assert "http.max_events" in many.json()["detail"]
        assert stored(server) == []

    serve(scenario, HttpSettings(max_events=10, max_body_bytes=5_000))


def test_a_form_is_refused_as_it_is_curls_default() -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await client.post(EVENTS, data={"a": "1"})

        assert answer.status_code == 415
        assert "curl -d" in answer.json()["detail"]
        assert stored(server) == []

    serve(scenario)


@pytest.mark.parametrize(
    "topic",
    ["..", "%2e%2e%2fx", "%252e%252e%252fx", "a%00b", "a" * 250, "%D0%BErders", "__mainstem_x"],
)
def test_a_name_that_is_no_topic_is_refused(topic: str) -> None:
    async def scenario(server: Started, client: Client) -> None:
        before = server.broker.topics()

        for answer in (
            await client.post(f"/topics/{topic}/events", json=1),
            await client.get(f"/topics/{topic}/events"),
        ):
            # An escaped slash separates, and leads to an address that is not there.
            assert answer.status_code in (400, 404), answer.text
        assert server.broker.topics() == before

    serve(scenario)


def test_internal_topics_can_be_neither_read_nor_written() -> None:
    async def scenario(_: Started, client: Client) -> None:
        path = "/topics/__mainstem_topics/events"

        problem(await client.post(path, json=1), 400, "invalid")
        problem(await client.get(path), 400, "invalid")

    serve(scenario)


def test_a_full_topic_is_overloaded_and_says_when_to_try_again() -> None:
    async def scenario(server: Started, client: Client) -> None:
        settings = TopicSettings(max_backlog=1, overload=Overload.DROP_NEWEST)
        server.broker.create_topic("small", settings)
        publish(server.broker, "small", b"1")

        answer = await client.post("/topics/small/events", json=2)

        problem(answer, 503, "overloaded")
        assert int(answer.headers["retry-after"]) >= 1

    serve(scenario)


def test_backpressure_holds_a_request_until_there_is_room() -> None:
    async def scenario(server: Started, client: Client) -> None:
        create_full_topic(server.broker)
        assert isinstance(server.broker.try_publish("small", [Event(b"2")]), HeldPublish)

        held = asyncio.create_task(client.post("/topics/small/events", json=2))
        await until(lambda: server.broker.counters("small")["held"] == 2)
        server.broker.commit("group", {("small", 0): 1})

        assert (await held).json() == {"positions": [{"partition": 0, "offset": 1}]}

    serve(scenario)


def test_a_key_that_is_no_text_is_shown_in_base64() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.publish(TOPIC, [Event(b"\xff", b"\xfe")]).durable.wait(30)

        (event,) = (await client.get(EVENTS)).json()["events"]

        assert base64.b64decode(event["key_base64"]) == b"\xfe"
        assert base64.b64decode(event["base64"]) == b"\xff"

    serve(scenario)
