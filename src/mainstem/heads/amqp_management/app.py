"""The management API as an ASGI app: finds the function that answers a request; sends its response.

Errors have RabbitMQ's form, ``{"error": "not_found", "reason": "..."}``. As in RabbitMQ, a missing
permission is a 401, not a 403. The failures "exists", "conflict" and "unsupported" are a 400, not a
409 or 501, because RabbitMQ's tools then show the reason. All other failures have the status of
``heads/web/problem.py``.
"""

from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.responses import Response

from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.amqp_management.call import Call, Created, Status
from mainstem.heads.amqp_management.routes import find
from mainstem.heads.context import HeadContext
from mainstem.heads.web.body import read_body
from mainstem.heads.web.login import header, user_of
from mainstem.heads.web.problem import CHALLENGE, STATUSES, Refused
from mainstem.heads.web.threads import in_thread

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_STATUSES = STATUSES | {
    Failure.DENIED: 401,
    Failure.EXISTS: 400,
    Failure.CONFLICT: 400,
    Failure.UNSUPPORTED: 400,
}
_ERRORS = {400: "bad_request", 401: "not_authorised", 404: "not_found", 405: "method_not_allowed"}
_MAX_FIELDS = 50


def management_app(context: HeadContext, max_body_bytes: int) -> "ASGIApp":
    """Return the ASGI app of the management API."""

    async def app(scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            body = await read_body(scope, receive, max_body_bytes)
            peer = user_of(context.auth, scope)
            segments = segments_of(cast(bytes, scope["raw_path"]))
            answer, path = find(scope["method"], segments)
            query = fields_of(cast(bytes, scope["query_string"]))
            reason = header(scope, b"x-reason").decode("utf-8", "replace")
            call = Call(context, peer, path, query, body, reason)
            response = _response(await in_thread(lambda: answer(call)))
        except Refused as error:
            headers = {name.decode(): value.decode() for name, value in error.headers}
            response = _error(error.status, str(error), headers)
        except MainstemError as error:
            response = _refusal(error)
        await response(scope, receive, send)

    return app


def segments_of(raw: bytes) -> tuple[str, ...]:
    """Return the decoded segments of a path, without an empty one at its end."""
    try:
        segments = [unquote_to_bytes(each).decode() for each in raw.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise Refused(400, "the path is not valid UTF-8") from None
    if segments and not segments[-1]:
        segments.pop()
    return tuple(segments)


def fields_of(query: bytes) -> dict[str, str]:
    """Return the parameters of a query by name; of repeated ones the last."""
    try:
        found = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_MAX_FIELDS,
            errors="strict",
        )
    except ValueError:
        why = f"the query must be percent-encoded UTF-8, and have up to {_MAX_FIELDS} fields"
        raise Refused(400, why) from None
    return dict(found)


def _response(found: object) -> Response:
    match found:
        case None:
            return Response(status_code=204)
        case Created():
            headers = {"Location": found.location} if found.location else {}
            return Response(status_code=201 if found.created else 204, headers=headers)
        case Status():
            return _json(found.status, found.body)
    return _json(200, found)


def _json(status: int, value: object, headers: dict[str, str] | None = None) -> Response:
    said = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(value), status, said, "application/json")


def _refusal(error: MainstemError) -> Response:
    status = _STATUSES[error.failure]
    name, value = CHALLENGE
    return _error(status, str(error), {name.decode(): value.decode()} if status == 401 else {})


def _error(status: int, reason: str, headers: dict[str, str]) -> Response:
    readable = reason.encode("utf-8", "replace").decode()
    kind = _ERRORS.get(status, "error")
    return _json(status, {"error": kind, "reason": readable}, headers)
