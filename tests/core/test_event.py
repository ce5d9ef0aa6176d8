"""The event and its ways to be read."""

from typing import Any

import pytest

from mainstem.core.errors import UnreadableValue
from mainstem.core.event import Event, Position


def test_an_event_cannot_be_changed() -> None:
    event = Event(b"v")

    with pytest.raises(AttributeError):
        event.value = b"w"  # type: ignore[misc]


def test_an_event_knows_where_it_stands() -> None:
    assert Event(b"v", topic="orders", partition=2, offset=7).position == Position(2, 7)


def test_text_is_utf8_and_no_value_is_no_text() -> None:
    assert Event("grüße".encode()).text() == "grüße"
    assert Event(None).text() == ""


@pytest.mark.parametrize("value", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80"])
def test_what_is_not_text_is_a_clear_error(value: bytes) -> None:
    with pytest.raises(UnreadableValue, match=r"orders\[1\]@5 is not UTF-8 text"):
        Event(value, topic="orders", partition=1, offset=5).text()


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (b'{"id": 1}', {"id": 1}),
        (b" [1.5, null, true] ", [1.5, None, True]),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"[" * 200 + b"]" * 200, None),
        (None, None),
    ],
    ids=["object", "list", "surrogate pair", "name twice", "large number", "deep", "no value"],
)
def test_json_is_read(value: bytes | None, meaning: Any) -> None:
    found = Event(value).json()

    assert meaning is None or found == meaning


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"nope",
        b'{"id": 1} {"id": 2}',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"1" * 5_000,
        b'"\\ud800"',
        b'"\\udc00 x"',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.",
        b"\xac\xed\x00\x05sr",
        "{}".encode("utf-16"),
    ],
    ids=[
        "empty",
        "cut off",
        "word",
        "two",
        "NaN",
        "infinity",
        "minus infinity",
        "1e999",
        "5000 digits",
        "lone surrogate",
        "lone low surrogate",
        "surrogate in UTF-8",
        "not UTF-8",
        "deep list",
        "deep object",
        "deep and closed",
        "pickle",
        "Java object",
        "UTF-16",
    ],
)
def test_what_is_not_json_is_a_clear_error(value: bytes) -> None:
    with pytest.raises(UnreadableValue, match=r"not JSON: .*bytes are in event.value") as refusal:
        Event(value).json()

    assert len(str(refusal.value)) < 300
