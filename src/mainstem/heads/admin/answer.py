"""A response of the admin port, independent of Starlette."""

from typing import TYPE_CHECKING

import msgspec

from mainstem.core.errors import Failure
from mainstem.heads.web.problem import CHALLENGE, PROBLEM_TYPE, problem

if TYPE_CHECKING:
    from starlette.responses import Response

TEXT = "text/plain; charset=utf-8"
JSON_TYPE = "application/json"


class HttpAnswer(msgspec.Struct, frozen=True):
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = TEXT
    allow: str = ""
    """For status 405 (method not allowed): the methods that the resource supports."""


def problem_answer(
    status: int, detail: str, failure: Failure | None = None, allow: str = ""
) -> HttpAnswer:
    """Return an error response in JSON (problem details)."""
    return HttpAnswer(status, problem(status, detail, failure), PROBLEM_TYPE, allow)


def method_refused(path: str, method: str, allow: str) -> HttpAnswer:
    """Return the response (405) to a method that a page or operation does not support."""
    return problem_answer(405, f"{path} answers {allow}, not {method}", allow=allow)


def response_of(answer: HttpAnswer) -> "Response":
    """Convert to a response of Starlette."""
    from starlette.responses import Response  # noqa: PLC0415 - slow to import

    headers = {"Content-Type": answer.content_type, "Cache-Control": "no-store"}
    if answer.allow:
        headers["Allow"] = answer.allow
    if answer.status == 401:
        name, value = CHALLENGE
        headers[name.decode()] = value.decode()
    return Response(answer.body, answer.status, headers)
