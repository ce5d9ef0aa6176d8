"""The bodies and headers of requests, as the CloudEvents SDK and JSON readers see them."""

import json

import pytest
from cloudevents.v1.http import from_http
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event, Position
from mainstem.heads.webhooks.endpoints import Endpoint, Payload
from mainstem.heads.webhooks.payloads import message, message_id, parse_message_id
from mainstem.heads.webhooks.templates import Template

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
    template = Template('{"all": ["{{value}}", "{{key}}", "<{{value}}{{id}}>"]}')
    sent = message(payload, "t1", [event], batch=False, template=template)

    said = [sent.content_type, *(text for header in sent.headers for text in header)]
    assert all(each.isascii() and each.isprintable() for each in said)
    if payload in (Payload.ENVELOPE, Payload.CLOUDEVENTS, Payload.TEMPLATE):
        json.loads(sent.body)


@given(st.text(st.sampled_from("0123456789abcdef"), min_size=1), st.integers(0), st.integers(0))
def test_an_id_tells_the_position(topic_id: str, partition: int, offset: int) -> None:
    position = Position(partition, offset)

    assert parse_message_id(message_id(topic_id, position)) == (topic_id, position)


@pytest.mark.parametrize("text", ["", "msg_", "msg_a_1", "msg_a_1_x", "a_1_2", "msg_a_-1_2"])
def test_what_is_no_id_has_no_position(text: str) -> None:
    assert parse_message_id(text) is None


def by_template(template: str, *events: Event, batch: bool = False) -> object:
    sent = message(Payload.TEMPLATE, "t1", events, batch=batch, template=Template(template))
    assert sent.content_type == "application/json"
    return json.loads(sent.body)


def test_a_template_is_filled_with_fields_of_the_event() -> None:
    event = at(7, b'{"id": 5, "to": {"city": "Ulm"}, "gone": null}', key=b"k", Shop=b"north")
    template = """{
        "text": "order {{ value.id }} of {{header.shop}} to {{value.to.city}}, {{value.none}}",
        "whole": "{{value}}", "part": "{{value.to}}", "number": ["{{value.id}}"],
        "absent": "{{value.a.b}}",
        "place": "{{topic}}/{{partition}}/{{offset}}", "key": "{{key}}", "id": "{{id}}",
        "time": "{{timestamp}}", "fixed": [1, true, null, {"a": 1.5}]
    }"""

    assert by_template(template, event) == {
        "text": "order 5 of north to Ulm, ",
        "whole": {"id": 5, "to": {"city": "Ulm"}, "gone": None},
        "part": {"city": "Ulm"},
        "number": [5],
        "absent": None,
        "place": "orders/2/7",
        "key": "k",
        "id": "msg_t1_2_7",
        "time": "2023-11-14T22:13:20.123Z",
        "fixed": [1, True, None, {"a": 1.5}],
    }


@pytest.mark.parametrize(
    ("value", "whole", "inserted"),
    [
        (b'"text"', "text", "=text="),
        (b"no json", "no json", "=no json="),
        (b"\xff", "/w==", "=/w==="),
        (b"[1,2]", [1, 2], "=[1,2]="),
        (None, None, "=="),
        (b"", "", "=="),
    ],
)
def test_values_of_any_kind_fill_a_template(
    value: bytes | None, whole: object, inserted: str
) -> None:
    filled = by_template('{"whole": "{{value}}", "inserted": "={{value}}="}', at(1, value))

    assert filled == {"whole": whole, "inserted": inserted}


def test_a_batch_by_a_template_is_a_list() -> None:
    assert by_template('"{{offset}}"', at(1, b"1"), at(2, b"2"), batch=True) == [1, 2]


@given(st.text() | st.binary())
def test_no_event_changes_the_structure_of_a_template(value: str | bytes) -> None:
    data = value if isinstance(value, bytes) else json.dumps({"a": value}).encode()
    event = Event(data, b"{{id}}", (("h", b'"}'),), NOW_MS, "orders", 2, 1)

    filled = by_template('{"a": "<{{value.a}}>", "b": ["{{header.h}}", "{{key}}"]}', event)

    assert isinstance(filled, dict)
    assert filled["a"] == (f"<{value}>" if isinstance(value, str) else "<>")
    assert filled["b"] == ['"}', "{{id}}"]


@pytest.mark.parametrize(
    "template",
    [
        "{",
        '"{{unknown}}"',
        '"{{value.}}"',
        '"{{}}"',
        "[" * 100_000,
        '"' + "{{id}}" * 21 + '"',
        '"' + "x" * 16 * 1024 + '"',
    ],
)
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(InvalidSetting, match="template"):
        Template(template)


def test_a_template_goes_with_its_payload_only() -> None:
    for payload, template in ((Payload.TEMPLATE, ""), (Payload.VALUE, "{}")):
        endpoint = Endpoint(
            name="a", url="https://a.example/", topics="t", payload=payload, template=template
        )
        with pytest.raises(InvalidSetting, match="template"):
            endpoint.check()
