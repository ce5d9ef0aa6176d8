"""kcat's format strings and envelopes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.cli.events.event_format import as_json, by_delimiter, by_template, from_json, unescape
from mainstem.cli.output.terminal_escapes import shown_bytes, shown_json
from mainstem.core.event import Event

EVENT = Event(
    value=b"v%d",
    key=b"k",
    headers=(("a", b"1"), ("b", None)),
    timestamp_ms=17,
    topic="orders",
    partition=3,
    offset=42,
)
DELETION = Event(value=None, timestamp_ms=17, topic="orders", partition=0, offset=1)


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        (r"%s\n", b"v%d\n"),
        ("%k=%s", b"k=v%d"),
        (r"%t [%p] at %o:\t%T %h\n", b"orders [3] at 42:\t17 a=1,b=NULL\n"),
        ("%S %K", b"3 1"),
        ("%R%s", b"\0\0\0\3v%d"),
        ("100%%", b"100%"),
        (r"\x41\\\0", b"A\\\0"),
        ("é%s", "év%d".encode()),
        ("", b""),
    ],
)
def test_a_format_string_says_what_is_printed(template: str, printed: bytes) -> None:
    assert by_template(template)([EVENT]) == printed


def test_what_is_absent_prints_nothing_or_null_and_has_length_minus_one() -> None:
    assert by_template("%k|%s|%K|%S|%R")([DELETION]) == b"||-1|-1|\xff\xff\xff\xff"
    assert by_template("%k|%s", null=b"NULL")([DELETION]) == b"NULL|NULL"
    assert by_delimiter(b"\n", null=b"NULL")([DELETION, EVENT]) == b"NULL\nv%d\n"


@pytest.mark.parametrize("template", ["%", "%x", "50% off"])
def test_an_unknown_format_is_refused_by_name(template: str) -> None:
    with pytest.raises(ValueError, match="there are %s"):
        by_template(template)


@given(st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"])))
def test_text_without_backslash_means_itself(text: str) -> None:
    assert unescape(text) == text.encode()


def test_an_envelope_has_kcats_fields() -> None:
    (line,) = as_json([EVENT]).splitlines()

    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "tstype": "create",
        "ts": 17,
        "headers": ["a", "1", "b", None],
        "key": "k",
        "payload": "v%d",
    }


def test_bytes_that_are_not_text_are_marked_as_base64() -> None:
    binary = Event(value=b"\xff", key=b"\xfe", headers=(("a", b"\xfd"), ("b", b"text")))

    envelope = json.loads(as_json([binary]))

    assert (envelope["payload"], envelope["payload_encoding"]) == ("/w==", "base64")
    assert (envelope["key"], envelope["key_encoding"]) == ("/g==", "base64")
    assert envelope["headers"] == ["a", "/Q==", "b", "dGV4dA=="]
    assert envelope["headers_encoding"] == "base64"


data = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@given(
    value=data,
    key=data,
    headers=st.lists(st.tuples(st.text(max_size=5), data), max_size=4).map(tuple),
    timestamp_ms=st.integers(-1, 2**62),
)
def test_an_envelope_reads_back_as_the_same_event(
    value: bytes | None,
    key: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    timestamp_ms: int,
) -> None:
    event = Event(value=value, key=key, headers=headers, timestamp_ms=timestamp_ms)

    assert from_json(as_json([event])) == event


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"payload": 1}',
        b'{"payload": "x", "headers": ["a"]}',
        b'{"payload": "x", "headers": [null, "a"]}',
        b'{"payload": "?", "payload_encoding": "base64"}',
        b'{"payload": "x", "payload_encoding": "rot13"}',
        b'{"payload": "\xff"}',
        b"[" * 100_000,
        b'{"payload": "x", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_envelope_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the reader says what the message is about
        from_json(line)


def test_a_terminal_gets_no_control_characters_from_events() -> None:
    nasty = Event(value=b"\x1b]0;owned\x07\xc2\x9b31m\xff\tok", key=b"\x7f")

    assert by_template(r"\x1b%s", clean=shown_bytes)([nasty]) == (
        b"\x1b\\x1b]0;owned\\x07\\x9b31m\\xff\tok"
    )
    assert by_delimiter(b"\n", clean=shown_bytes)([nasty]).startswith(b"\\x1b]0;")


@given(st.text(max_size=30), st.text(max_size=30))
def test_json_for_a_terminal_is_the_same_json_without_control_characters(
    key: str, value: str
) -> None:
    line = as_json([Event(value=value.encode(), key=key.encode())])

    shown = shown_json(line)

    assert json.loads(shown) == json.loads(line)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown.decode()[:-1])
