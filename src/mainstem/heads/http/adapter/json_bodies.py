"""Decodes JSON bodies of requests, and encodes JSON responses."""

from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.responses import Response

from mainstem.core.errors import InvalidSetting
from mainstem.heads.web.body import read_body

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a JSON body that is not a publish."""


async def read_json(request: "Request", kind: type[T], empty: T | None = None) -> T:
    """Read and decode the JSON body of a request as a ``kind``; raises InvalidSetting.

    ``empty``: the value for a request without a body.
    """
    body = await read_body(request.scope, request.receive, MAX_BYTES)
    if not body and empty is not None:
        return empty
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSetting(f"the body is not what is expected here: {error}") from None


def as_json(value: object, status: int = 200) -> Response:
    """Return a response whose body is a value as JSON."""
    return Response(
        msgspec.json.encode(value) + b"\n",
        status,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )
