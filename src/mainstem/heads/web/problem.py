"""Errors as JSON: problem details [RFC 9457], with the class of failure."""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from mainstem.core.errors import Failure, MainstemError

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
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
"""A header of all answers, so that no browser treats data of producers as a web page."""
CHALLENGE = (b"www-authenticate", b'Basic realm="mainstem", charset="UTF-8"')
"""The header of responses with status 401."""


Headers = tuple[tuple[bytes, bytes], ...]

RETRY = (b"retry-after", b"1")
"""The header of responses with status 503: the request may succeed after some seconds."""


class Problem(msgspec.Struct, frozen=True):
    """The JSON body of an error response."""

    title: str
    status: int
    detail: str
    failure: str
    """The class of failure (``mainstem.core.errors.Failure``); "" for errors of HTTP itself."""


class Refused(Exception):
    """Refuses a request with an HTTP status, for a reason that has no class of failure."""

    def __init__(
        self, status: int, reason: str, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = tuple(headers)
        """Additional headers of the response."""


def problem(status: int, detail: str, failure: Failure | None = None) -> bytes:
    """Return the JSON body for an error."""
    title = HTTPStatus(status).phrase
    # The quoted parts of an error may not be valid Unicode.
    readable = detail.encode("utf-8", "replace").decode()
    return msgspec.json.encode(Problem(title, status, readable, failure or ""))


def problem_of(
    error: MainstemError | Refused,
) -> tuple[int, bytes, Headers]:
    """Return status, body and additional headers of the response to an error."""
    if isinstance(error, Refused):
        return error.status, problem(error.status, str(error)), error.headers
    status = STATUSES[error.failure]
    headers = (CHALLENGE,) if status == 401 else (RETRY,) if status == 503 else ()
    return status, problem(status, str(error), error.failure), headers
