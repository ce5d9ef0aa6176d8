"""Reads the body of a request, up to a limit; decompresses gzip, up to the same limit."""

import zlib
from typing import TYPE_CHECKING, cast

from mainstem.heads.web.login import header
from mainstem.heads.web.problem import Refused

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

_GZIP = 16 + zlib.MAX_WBITS


class Disconnected(Exception):
    """The peer has disconnected, or did not send the whole body in time; no answer is possible."""


async def read_body(scope: "Scope", receive: "Receive", limit: int) -> bytes:
    """Read the body of a request; raises Refused if it has more than ``limit`` bytes."""
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = cast(bytes, message.get("body", b""))
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        pieces.append(piece)
        more = message.get("more_body", False)
    return _decoded(b"".join(pieces), header(scope, b"content-encoding"), limit)


def too_large(limit: int) -> Refused:
    """Return the error for a body over the limit."""
    return Refused(413, f"a body may have up to {limit} bytes here")


def _decoded(body: bytes, encoding: bytes, limit: int) -> bytes:
    match encoding.strip().lower():
        case b"" | b"identity":
            return body
        case b"gzip" | b"x-gzip":
            return _gunzipped(body, limit)
        case _:
            known = ((b"accept-encoding", b"gzip, identity"),)
            raise Refused(415, "the Content-Encoding must be gzip, or none", known)


def _gunzipped(body: bytes, limit: int) -> bytes:
    unpacking = zlib.decompressobj(_GZIP)
    try:
        found = unpacking.decompress(body, limit + 1)
    except zlib.error as error:
        raise Refused(400, f"the body is not valid gzip: {error}") from None
    if len(found) > limit:
        raise too_large(limit)
    if not unpacking.eof or unpacking.unused_data:
        raise Refused(400, "the body is not one whole gzip stream")
    return found
