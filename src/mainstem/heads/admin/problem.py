"""Errors of operations as JSON: problem details [RFC 9457], with the class of failure."""

from http import HTTPStatus

import msgspec

from mainstem.core.errors import Failure

PROBLEM_TYPE = "application/problem+json"
STATUSES = {
    Failure.NOT_FOUND: 404,
    Failure.EXISTS: 409,
    Failure.CONFLICT: 409,
    Failure.INVALID: 400,
    Failure.DENIED: 403,
    Failure.UNAUTHENTICATED: 401,
    Failure.FENCED: 409,
    Failure.STALE: 409,
    Failure.OVERLOADED: 503,
    Failure.TOO_LARGE: 413,
    Failure.UNAVAILABLE: 503,
    Failure.UNSUPPORTED: 501,
    Failure.CORRUPT: 500,
}
"""The HTTP status of each class of failure."""


class Problem(msgspec.Struct, frozen=True):
    """The JSON body of an error response."""

    title: str
    status: int
    detail: str
    failure: str
    """The class of failure (``mainstem.core.errors.Failure``); "" for errors of HTTP itself."""


def problem(status: int, detail: str, failure: Failure | None = None) -> bytes:
    """Return the body of an error."""
    title = HTTPStatus(status).phrase
    # The quoted parts of an error may not be valid Unicode.
    readable = detail.encode("utf-8", "replace").decode()
    return msgspec.json.encode(Problem(title, status, readable, failure or ""))
