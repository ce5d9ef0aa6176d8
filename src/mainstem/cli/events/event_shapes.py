"""Turns pieces of input into values or events to publish, by the options of ``mainstem pub``."""

import os
from collections.abc import Callable

import click

from mainstem.cli.events.event_format import delimiter_of, from_json
from mainstem.core.errors import InvalidEvent
from mainstem.core.event import Event, Headers

Shaped = list[bytes | Event | None]
Shape = Callable[[list[bytes]], Shaped]
"""Turns pieces of input into values or events to publish."""


def shape_of(
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    nulls: bool,
    envelopes: bool,
) -> Shape:
    """Return a function that makes events of pieces; raises UsageError for conflicting options."""
    if envelopes and (key is not None or key_delimiter is not None or headers or nulls):
        raise click.UsageError("-J takes key, headers and value from the envelope: no -k -K -H -Z")
    if key is not None and key_delimiter is not None:
        raise click.UsageError("give -k (one key for all) or -K (a key in each line), not both")
    if envelopes:
        return _enclosed
    if key is None and key_delimiter is None and not headers:
        return _nulled if nulls else list
    fixed: Headers = tuple(_header(text) for text in headers)
    every = None if key is None else os.fsencode(key)
    if key_delimiter is None:
        return lambda pieces: [
            Event(value=None if nulls and not piece else piece, key=every, headers=fixed)
            for piece in pieces
        ]
    ends = delimiter_of(key_delimiter, "-K")
    if not ends:
        raise click.UsageError("-K needs a delimiter of at least one character")

    def keyed(piece: bytes) -> Event:
        head, found, value = piece.partition(ends)
        if not found:
            head, value = b"", piece
        none = not found or (nulls and not head)
        return Event(
            value=None if nulls and not value else value,
            key=None if none else head,
            headers=fixed,
        )

    return lambda pieces: [keyed(piece) for piece in pieces]


def _nulled(pieces: list[bytes]) -> Shaped:
    return [piece or None for piece in pieces]


def _enclosed(pieces: list[bytes]) -> Shaped:
    events: Shaped = []
    for piece in pieces:
        if not piece.strip():
            continue
        try:
            events.append(from_json(piece))
        except ValueError as error:
            raise InvalidEvent(
                f"{piece[:80]!r} is not an envelope as printed by sub -J: {error}"
            ) from None
    return events


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise click.UsageError(f"-H {text!r} lacks a name; write -H NAME=VALUE")
    return name, os.fsencode(value) if equals else None
