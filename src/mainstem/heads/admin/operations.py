"""Operations over HTTP: read-only ones by GET with a query, the others by POST.

The arguments of a POST are a JSON object. ``session.py`` refuses requests that a web page of
another origin could make.
"""

import logging
from collections.abc import Mapping

import msgspec

from mainstem.auth import Auth, Peer
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.admin.query import BadRequest, check_run, fields_of
from mainstem.heads.admin.session import JSON_TYPE, HttpAnswer, HttpRequest
from mainstem.heads.admin_operations import Administration
from mainstem.heads.web.login import login
from mainstem.heads.web.problem import PROBLEM_TYPE, STATUSES, problem

_logger = logging.getLogger("mainstem.heads.admin")


class OperationPages:
    """Answers HTTP requests for operations."""

    def __init__(self, administration: Administration, auth: Auth, run_id: str) -> None:
        self._administration = administration
        self._auth = auth
        self._run_id = run_id

    def is_for(self, request: HttpRequest) -> bool:
        """Tell whether a request is for an operation rather than a page; every POST is."""
        return request.posts or self._administration.find(request.path[1:]) is not None

    def answer(self, request: HttpRequest, peer: Peer) -> HttpAnswer:
        """Run an operation and return its answer; called in any thread except the event loop's."""
        operation = self._administration.find(request.path[1:])
        if operation is None:
            offered = ", ".join(each.name for each in self._administration if each.changes)
            return _problem(
                404,
                f"no operation {request.path} is offered here; there are: {offered or 'none'}; "
                "what a head offers is there while it is on",
                Failure.UNSUPPORTED,
            )
        if operation.changes != request.posts:
            return method_refused(request, "POST" if operation.changes else "GET, HEAD")
        try:
            fields = fields_of(request.query)
            check_run(fields, self._run_id)
            given = _body(request) if request.posts else fields
            peer = login(self._auth, peer, request.authorization)
            found = operation.run(peer, given, text=not request.posts)
            return HttpAnswer(200, msgspec.json.encode(found), JSON_TYPE)
        except BadRequest as error:
            return _problem(error.status, str(error))
        except MainstemError as error:
            return _problem(STATUSES[error.failure], str(error), error.failure)
        except Exception:
            # This thread belongs to the loop's pool, and the peer must get an answer after any
            # exception.
            _logger.exception("operation %s failed", operation.name)
            return _problem(500, f"{request.path} failed; the server's log says why")


def method_refused(request: HttpRequest, allow: str) -> HttpAnswer:
    """Return the 405 response for a method that a page or operation does not support."""
    return _problem(405, f"{request.path} answers {allow}, not {request.method}", allow=allow)


def _body(request: HttpRequest) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(request.body or b"{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"the body must be a JSON object: {error}") from None


def _problem(
    status: int, detail: str, failure: Failure | None = None, allow: str = ""
) -> HttpAnswer:
    return HttpAnswer(status, problem(status, detail, failure), PROBLEM_TYPE, allow)
