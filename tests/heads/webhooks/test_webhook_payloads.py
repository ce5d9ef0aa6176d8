"""The bodies and headers of requests, as the CloudEvents SDK and JSON readers see them."""

import json

import pytest
from cloudevents.v1.http import from_http
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.event import Event, Position
from mainstem.heads.webhooks.endpoints import Payload
from mainstem.heads.webhooks.payloads import message, message_id, parse_message_id

NOW_MS = 1_700_000_000_123


def at(offset: int, value: bytes | None, *, key: bytes | None = None, **headers: bytes) -> Event:
    return Event(value, key, tuple(headers.items()), NOW_MS, "orders", 2, offset)


def test_a_value_is_sent_as_it_is() -> None:
    sent = message(Payload.VALUE, "t1", [at(7, b'{"a": 1}')], batch=False)

    assert (sent.id, sent.content_type, sent.body) == (
        "msg_t1_2_7",
        "application/json",
        b'{"a": 1}',
    )


@pytest.mark.parametrize(
    ("event", "content_type"),
    [
        (at(1, b"\x00\x01"), "application/octet-stream"),
        (at(1, None), "application/octet-stream"),
        (Event(b"{}", headers=(("Content-Type", b"text/csv"),)), "text/csv"),
        (Event(b"{}", headers=(("content-type", b"a/b\r\nHost: x"),)), "application/json"),
    ],
)
def test_the_content_type_is_the_events_own_or_what_its_value_looks_like(
    event: Event, content_type: str
) -> None:
    assert message(Payload.VALUE, "t1", [event], batch=False).content_type == content_type


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"a": [1, 2]}', {"value": {"a": [1, 2]}}),
        (None, {"value": None}),
        (b"plain", {"text": "plain"}),
        (b"", {"text": ""}),
        (b"\xff\xfe", {"base64": "//4="}),
    ],
)
def test_an_envelope_has_all_of_an_event(value: bytes | None, found: dict[str, object]) -> None:
    sent = message(Payload.ENVELOPE, "t1", [at(7, value, key=b"k", trace=b"x")], batch=False)

    assert json.loads(sent.body) == {
        "id": "msg_t1_2_7",
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "key": "k",
        "headers": {"trace": "x"},
        **found,
    }


def test_a_batch_is_a_list_even_of_one() -> None:
    one = message(Payload.ENVELOPE, "t1", [at(7, b"1")], batch=True)
    two = message(Payload.ENVELOPE, "t1", [at(7, b"1"), at(9, b"2")], batch=True)
    other = message(Payload.ENVELOPE, "t1", [at(7, b"1"), at(8, b"2")], batch=True)

    assert [each["value"] for each in json.loads(two.body)] == [1, 2]
    assert len(json.loads(one.body)) == 1
    assert one.id == "msg_t1_2_7"
    assert len({one.id, two.id, other.id}) == 3


@pytest.mark.parametrize(
    ("value", "data"),
    [(b'{"a": 1}', {"a": 1}), (b"plain", "plain"), (b"\xff", b"\xff"), (None, None)],
)
def test_the_cloudevents_sdk_reads_both_modes(value: bytes | None, data: object) -> None:
    event = at(7, value, key="schlüssel".encode())
    structured = message(Payload.CLOUDEVENTS, "t1", [event], batch=False)
    binary = message(Payload.CLOUDEVENTS_BINARY, "t1", [event], batch=False)

    first = from_http({"content-type": structured.content_type}, structured.body)
    second = from_http(dict(binary.headers), binary.body, lambda body: body)

    assert first.data == data
    assert (second.data or None) == value
    for found in (first, second):
        assert (found["id"], found["type"]) == ("msg_t1_2_7", "orders")
        assert found["source"] == "/topics/orders"
        assert found["time"] == "2023-11-14T22:13:20.123Z"
    assert first["partitionkey"] == "schlüssel"


def test_a_cloudevent_keeps_the_attributes_that_it_came_with() -> None:
    event = at(7, b"1", ce_id=b"own", ce_type=b"paid", ce_source=b"/shop", ce_specversion=b"1.0")
    sent = message(Payload.CLOUDEVENTS, "t1", [event], batch=False)

    found = from_http({"content-type": sent.content_type}, sent.body)

    assert (found["id"], found["type"], found["source"]) == ("own", "paid", "/shop")


@given(
    st.sampled_from(Payload),
    st.none() | st.binary(max_size=50) | st.text().map(str.encode),
    st.none() | st.binary(max_size=20),
    st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=4),
    st.integers(-(2**63), 2**63 - 1),
)
def test_any_event_makes_a_request_without_control_characters_in_its_headers(
    payload: Payload,
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp_ms: int,
) -> None:
    event = Event(value, key, tuple(headers), timestamp_ms, "orders", 0, 1)
    sent = message(payload, "t1", [event], batch=False)

    said = [sent.content_type, *(text for header in sent.headers for text in header)]
    assert all(each.isascii() and each.isprintable() for each in said)
    if payload in (Payload.ENVELOPE, Payload.CLOUDEVENTS):
        json.loads(sent.body)


@given(st.text(st.sampled_from("0123456789abcdef"), min_size=1), st.integers(0), st.integers(0))
def test_an_id_tells_the_position(topic_id: str, partition: int, offset: int) -> None:
    position = Position(partition, offset)

    assert parse_message_id(message_id(topic_id, position)) == (topic_id, position)


@pytest.mark.parametrize("text", ["", "msg_", "msg_a_1", "msg_a_1_x", "a_1_2", "msg_a_-1_2"])
def test_what_is_no_id_has_no_position(text: str) -> None:
    assert parse_message_id(text) is None
