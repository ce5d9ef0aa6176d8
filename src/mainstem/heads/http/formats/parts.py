"""Splits a multipart body into its parts."""

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from mainstem.core.errors import InvalidEvent
from mainstem.core.event import Headers
from mainstem.heads.http.formats.labels import HEADER, KEY

_MAX_BOUNDARY = 70
"""Maximum length of a boundary [RFC 2046, 5.1.1]."""


class Part(msgspec.Struct, frozen=True):
    """One part of a multipart body: its content, media type, and headers for the event."""

    body: bytes
    content_type: str = ""
    key: bytes | None = None
    headers: Headers = ()


class _Parts:
    """Collects the parts, which the parser reports piece by piece."""

    def __init__(self, max_parts: int) -> None:
        self.found: list[Part] = []
        self.is_over = False
        self._max_parts = max_parts
        self._pieces: list[bytes] = []
        self._name = self._value = b""
        self._fields: list[tuple[bytes, bytes]] = []

    def begin(self) -> None:
        if len(self.found) == self._max_parts:
            raise InvalidEvent(f"a request may have up to {self._max_parts} parts: send several")
        self._pieces, self._fields = [], []

    def field_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def field_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def field_end(self) -> None:
        self._fields.append((self._name.lower(), self._value))
        self._name = self._value = b""

    def data(self, data: bytes, start: int, end: int) -> None:
        self._pieces.append(data[start:end])

    def end(self) -> None:
        named = dict(self._fields)
        if named.get(b"content-transfer-encoding", b"binary").lower() not in (
            b"binary",
            b"8bit",
            b"7bit",
        ):
            raise InvalidEvent("a part's Content-Transfer-Encoding must be binary")
        self.found.append(
            Part(
                b"".join(self._pieces),
                named.get(b"content-type", b"").decode("latin-1"),
                named.get(KEY),
                tuple(
                    (name[len(HEADER) :].decode("latin-1"), value)
                    for name, value in self._fields
                    if name.startswith(HEADER)
                ),
            )
        )

    def over(self) -> None:
        self.is_over = True


def split(body: bytes, boundary: str, max_parts: int) -> list[Part]:
    """Split a multipart body; raises InvalidEvent."""
    if not 0 < len(boundary) <= _MAX_BOUNDARY:
        raise InvalidEvent("a multipart body needs a boundary of 1 to 70 characters")
    parts = _Parts(max_parts)
    parser = MultipartParser(
        boundary.encode("latin-1", "replace"),
        {
            "on_part_begin": parts.begin,
            "on_part_data": parts.data,
            "on_part_end": parts.end,
            "on_header_field": parts.field_name,
            "on_header_value": parts.field_value,
            "on_header_end": parts.field_end,
            "on_end": parts.over,
        },
    )
    try:
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise InvalidEvent(f"the multipart body is malformed: {error}") from None
    if not parts.is_over:
        raise InvalidEvent("the multipart body does not end with its boundary")
    if not parts.found:
        raise InvalidEvent("the body has no parts")
    return parts.found
