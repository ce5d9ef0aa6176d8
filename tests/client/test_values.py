"""Python values are converted to the bytes of an event, or refused."""

import pytest

from mainstem.client.values import header_pairs, key_bytes, value_bytes
from mainstem.core.errors import InvalidEvent


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (b"\x00raw", b"\x00raw"),
        (bytearray(b"raw"), b"raw"),
        (memoryview(b"raw"), b"raw"),
        ("Grüße", "Grüße".encode()),
        ("", b""),
        (None, None),
        ({"id": 1, "note": None}, b'{"id":1,"note":null}'),
        ([1, 2.5, "x"], b'[1,2.5,"x"]'),
        (7, b"7"),
        (True, b"true"),
        (10**30, b"1" + b"0" * 30),
    ],
)
def test_a_value_is_stored_as_bytes_text_or_json(value: object, stored: bytes | None) -> None:
    assert value_bytes(value) == stored  # type: ignore[arg-type]


def deep() -> list[object]:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "value", [float("nan"), {"x": [float("inf")]}, "\ud800", {"x": "\ud800"}, object(), deep()]
)
def test_a_value_that_would_not_come_back_the_same_is_refused(value: object) -> None:
    with pytest.raises(InvalidEvent):
        value_bytes(value)  # type: ignore[arg-type]


def test_a_key_is_text_or_bytes() -> None:
    assert key_bytes("k") == b"k"
    assert key_bytes(b"k") == b"k"
    assert key_bytes(None) is None

    with pytest.raises(InvalidEvent, match="int"):
        key_bytes(5)  # type: ignore[arg-type]


def test_headers_are_a_mapping_or_pairs_in_their_order() -> None:
    assert header_pairs({"a": "1", "b": None}) == (("a", b"1"), ("b", None))
    assert header_pairs([("z", b"1"), ("a", b"2"), ("z", b"3")]) == (
        ("z", b"1"),
        ("a", b"2"),
        ("z", b"3"),
    )
    assert header_pairs(()) == ()


@pytest.mark.parametrize("headers", ["ab", [("a",)], [(1, b"x")], [("\ud800", b"x")], 5])
def test_headers_of_another_shape_are_refused(headers: object) -> None:
    with pytest.raises(InvalidEvent):
        header_pairs(headers)  # type: ignore[arg-type]
