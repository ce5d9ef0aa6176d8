"""Limits the memory that decoding JSON takes: as objects, small texts can be large.

A list of empty lists takes some 25 times as much memory as its text. So text of more than
``MAX_PARSED`` bytes is never decoded to objects.
"""

import msgspec

from mainstem.core.errors import InvalidEvent

MAX_PARSED = 1024 * 1024
_NOTHING = msgspec.Raw(b"")


class _Values(msgspec.Struct):
    """The fields of an event, or of a CloudEvent, that are never decoded to objects."""

    value: msgspec.Raw = _NOTHING
    text: msgspec.Raw = _NOTHING
    base64: msgspec.Raw = _NOTHING
    data: msgspec.Raw = _NOTHING
    data_base64: msgspec.Raw = _NOTHING


_values_of = msgspec.json.Decoder(_Values).decode
_scan = msgspec.json.Decoder(msgspec.Raw).decode


def check_event(text: bytes) -> None:
    """Raise InvalidEvent if an event's JSON object is too large, not counting its value."""
    if len(text) <= MAX_PARSED:
        return
    found = _values_of(text)
    values = (found.value, found.text, found.base64, found.data, found.data_base64)
    rest = len(text) - sum(len(bytes(each)) for each in values)
    if rest > MAX_PARSED:
        raise InvalidEvent(
            f"apart from its value, an event may have up to {MAX_PARSED} bytes, not {rest}"
        )


def scan(value: bytes) -> None:
    """Raise a decoding error if a large value is not JSON, without decoding it to objects."""
    _scan(value)
    value.decode()
