"""Operations over HTTP: read-only ones by GET with a query, the others by POST.

The arguments of a POST are a JSON object. A web page of another origin can set neither the header
``X-Requested-By`` nor the content type JSON unless the server permits it (CORS), which this one
never does; so a POST must have both.
"""

from collections.abc import Mapping

import msgspec

from mainstem.auth import Auth, Peer
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.admin.answer import JSON_TYPE, HttpAnswer, method_refused, problem_answer
from mainstem.heads.admin.query import check_run
from mainstem.heads.admin_operations import Administration
from mainstem.heads.web.login import login
from mainstem.heads.web.problem import STATUSES, Refused


class Called(msgspec.Struct, frozen=True):
    """An HTTP request for an operation."""

    method: str
    path: str
    fields: dict[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def posts(self) -> bool:
        """Whether the method is POST, which may change something."""
        return self.method == "POST"


class OperationPages:
    """Answers HTTP requests for operations."""

    def __init__(self, administration: Administration, auth: Auth, run_id: str) -> None:
        self._administration = administration
        self._auth = auth
        self._run_id = run_id

    def has(self, path: str) -> bool:
        """Tell whether an operation is registered at this path."""
        return self._administration.find(path[1:]) is not None

    def answer(self, called: Called, peer: Peer) -> HttpAnswer:
        """Run an operation and return its answer; must not be called in the event loop."""
        operation = self._administration.find(called.path[1:])
        if operation is None:
            offered = ", ".join(each.name for each in self._administration if each.changes)
            return problem_answer(
                404,
                f"no operation {called.path} is offered here; there are: {offered or 'none'}; "
                "what a head offers is there while it is on",
                Failure.UNSUPPORTED,
            )
        if operation.changes != called.posts:
            allow = "POST" if operation.changes else "GET, HEAD"
            return method_refused(called.path, called.method, allow)
        try:
            check_run(called.fields, self._run_id)
            given = object_in(called.body) if called.posts else called.fields
            peer = login(self._auth, peer, called.headers.get("authorization", "").encode())
            found = operation.run(peer, given, text=not called.posts)
            return HttpAnswer(200, msgspec.json.encode(found), JSON_TYPE)
        except Refused as error:
            return problem_answer(error.status, str(error))
        except MainstemError as error:
            return problem_answer(STATUSES[error.failure], str(error), error.failure)


def check_post(headers: Mapping[str, str]) -> None:
    """Raise Refused for a POST that a web page of another origin could send."""
    if not headers.get("x-requested-by"):
        reason = "a POST needs the header X-Requested-By, with any value"
        raise Refused(403, f"{reason}: web pages of other origins cannot send it")
    check_json(headers)


def check_json(headers: Mapping[str, str]) -> None:
    """Raise Refused unless the content type is JSON, which a form of a web page cannot send."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise Refused(415, "the body must be JSON, with Content-Type: application/json")


def object_in(body: bytes) -> dict[str, object]:
    """Decode a body as a JSON object; an empty body is an empty object."""
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(400, f"the body must be a JSON object: {error}") from None
