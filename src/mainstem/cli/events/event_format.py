"""Formats events by kcat's format strings or as kcat's JSON envelopes, and parses envelopes."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Literal

import click
import msgspec

from mainstem.core.event import NO_TIMESTAMP, Event, Headers

Render = Callable[[Sequence[Event]], bytes]
"""Formats events as the bytes to print."""
Clean = Callable[[bytes], bytes]
"""Makes untrusted bytes safe for a terminal."""
Value = bytes | int

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_LETTERS = {"n": b"\n", "t": b"\t", "r": b"\r"}


def unescape(text: str) -> bytes:
    r"""Decode ``\n``, ``\t``, ``\r``, ``\x1f``, ``\0`` and ``\\`` as in a C string.

    Raises ValueError for a backslash before any other letter or digit.
    """
    pieces, at = [], 0
    for match in _ESCAPE.finditer(text):
        pieces.append(_raw(text[at : match.start()]))
        code, at = match[1], match.end()
        if code[0] == "x" and len(code) > 1:
            pieces.append(bytes([int(code[1:], 16)]))
        elif code[0] in "01234567" and int(code, 8) <= 0xFF:
            pieces.append(bytes([int(code, 8)]))
        elif code.isascii() and code.isalnum() and code not in _LETTERS:
            raise ValueError(
                rf"no escape \{code} in {text!r:.100}; there are \n \t \r \x1f \0 to \377, and \\"
            )
        else:
            pieces.append(_LETTERS.get(code, _raw(code)))
    return b"".join((*pieces, _raw(text[at:])))


def delimiter_of(text: str, option: str) -> bytes:
    """Decode the value of a delimiter option such as ``-D``; raises UsageError."""
    try:
        return unescape(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _raw(text: str) -> bytes:
    # Arguments that are not UTF-8 arrive as surrogates, and are encoded to the same bytes.
    return text.encode("utf-8", "surrogateescape")


def _headers(event: Event) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value)
        for name, value in event.headers
    )


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _as_is(data: bytes) -> bytes:
    return data


def _tokens(null: bytes, clean: Clean) -> dict[str, tuple[bytes, Callable[[Event], Value]]]:
    return {
        "s": (b"%b", lambda event: null if event.value is None else clean(event.value)),
        "k": (b"%b", lambda event: null if event.key is None else clean(event.key)),
        "S": (b"%d", lambda event: _length(event.value)),
        "K": (b"%d", lambda event: _length(event.key)),
        "R": (b"%b", lambda event: _length(event.value).to_bytes(4, "big", signed=True)),
        "t": (b"%b", lambda event: event.topic.encode()),
        "p": (b"%d", lambda event: event.partition),
        "o": (b"%d", lambda event: event.offset),
        "T": (b"%d", lambda event: event.timestamp_ms),
        "h": (b"%b", lambda event: clean(_headers(event))),
    }


def by_template(template: str, *, null: bytes = b"", clean: Clean | None = None) -> Render:
    r"""Return a function that formats events by a string such as ``%k=%s\n``.

    ``null`` stands for an absent key or value; ``clean`` escapes control characters. Raises
    ValueError.
    """
    tokens = _tokens(null, clean or _as_is)
    pieces, getters, at = [], [], 0
    for match in _TOKEN.finditer(template):
        pieces.append(unescape(template[at : match.start()]).replace(b"%", b"%%"))
        at = match.end()
        if match[1] == "%":
            pieces.append(b"%%")
        elif match[1] in tokens:
            piece, getter = tokens[match[1]]
            pieces.append(piece)
            getters.append(getter)
        else:
            known = " ".join(f"%{letter}" for letter in tokens)
            raise ValueError(f"no format {match[0]!r}; there are {known} %%")
    pieces.append(unescape(template[at:]).replace(b"%", b"%%"))
    pattern = b"".join(pieces)

    def render(events: Sequence[Event]) -> bytes:
        return b"".join([pattern % tuple([get(event) for get in getters]) for event in events])

    return render


def by_delimiter(delimiter: bytes, *, null: bytes = b"", clean: Clean | None = None) -> Render:
    """Return a function that formats the values only, each followed by ``delimiter``.

    ``null`` stands for an absent value; ``clean`` escapes control characters.
    """

    def render(events: Sequence[Event]) -> bytes:
        values = [null if event.value is None else event.value for event in events]
        return delimiter.join((*(map(clean, values) if clean else values), b""))

    return render


class Envelope(msgspec.Struct, omit_defaults=True):
    """An event in kcat's JSON envelope, with three more fields that say what is in base64."""

    topic: str
    partition: int
    offset: int
    tstype: str
    ts: int
    headers: list[str | None]
    key: str | None
    payload: str | None
    headers_encoding: str = ""
    """``base64`` if the header values are in base64; absent if they are text."""
    key_encoding: str = ""
    """``base64`` if the key is in base64; absent if it is text."""
    payload_encoding: str = ""
    """``base64`` if the payload is in base64; absent if it is text."""


def _text(data: bytes | None) -> tuple[str | None, str]:
    if data is None:
        return None, ""
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"


def _flat(headers: Headers) -> tuple[list[str | None], str]:
    texts = [_text(value) for _, value in headers]
    encoding = "base64" if any(encoding for _, encoding in texts) else ""
    flat: list[str | None] = []
    for (name, value), (text, _) in zip(headers, texts, strict=True):
        flat += (name, b64encode(value).decode() if encoding and value is not None else text)
    return flat, encoding


def envelope(event: Event) -> Envelope:
    """Return an event as kcat's JSON envelope, with its topic, partition and offset."""
    headers, headers_encoding = _flat(event.headers)
    key, key_encoding = _text(event.key)
    payload, payload_encoding = _text(event.value)
    return Envelope(
        topic=event.topic,
        partition=event.partition,
        offset=event.offset,
        tstype="create",
        ts=event.timestamp_ms,
        headers=headers,
        key=key,
        payload=payload,
        headers_encoding=headers_encoding,
        key_encoding=key_encoding,
        payload_encoding=payload_encoding,
    )


def as_json(events: Sequence[Event]) -> bytes:
    """Format events as JSON, one envelope per line."""
    return bytes(msgspec.json.Encoder().encode_lines([envelope(event) for event in events]))


class Enclosed(msgspec.Struct):
    """The fields that are read from an envelope; topic, partition and offset are ignored."""

    payload: str | None
    key: str | None = None
    headers: list[str | None] = []
    ts: int = NO_TIMESTAMP
    headers_encoding: Literal["", "base64"] = ""
    key_encoding: Literal["", "base64"] = ""
    payload_encoding: Literal["", "base64"] = ""


_DECODER = msgspec.json.Decoder(Enclosed)


def from_json(line: bytes) -> Event:
    """Parse an envelope into its event; raises ValueError if it is invalid."""
    try:
        read = _DECODER.decode(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if len(read.headers) % 2 or None in read.headers[::2]:
        raise ValueError("headers must be a list of names and values in turn")
    names = [name or "" for name in read.headers[::2]]
    values = [_data(value, read.headers_encoding) for value in read.headers[1::2]]
    return Event(
        value=_data(read.payload, read.payload_encoding),
        key=_data(read.key, read.key_encoding),
        headers=tuple(zip(names, values, strict=True)),
        timestamp_ms=read.ts,
    )


def _data(text: str | None, encoding: str) -> bytes | None:
    if text is None:
        return None
    return b64decode(text, validate=True) if encoding == "base64" else text.encode()
