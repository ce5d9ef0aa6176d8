"""The JSON API under ``/api/v1``: operations by method and path, and their OpenAPI document.

How this works: segments of the path are arguments; the others come in the query (GET, DELETE) or in
a JSON object (POST, PUT, PATCH). Names may have any characters: each segment is percent-decoded by
itself, so ``%2F`` stands for a slash in a name.
"""

from urllib.parse import unquote_to_bytes

import msgspec

from mainstem.auth import Auth, Peer
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.admin.answer import JSON_TYPE, HttpAnswer, problem_answer
from mainstem.heads.admin.openapi import document
from mainstem.heads.admin.operations import Called, check_json, object_in
from mainstem.heads.admin.query import check_run
from mainstem.heads.admin_operations import Administration, Operation
from mainstem.heads.web.login import login
from mainstem.heads.web.problem import STATUSES, Refused

PREFIX = "/api/v1/"
DOCUMENT = "openapi.json"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class Api:
    """Answers requests below ``/api/v1``."""

    def __init__(
        self, administration: Administration, auth: Auth, run_id: str, version: str
    ) -> None:
        self._administration, self._auth = administration, auth
        self._run_id, self._version = run_id, version

    def answer(self, called: Called, peer: Peer) -> HttpAnswer:
        """Answer a request; must not be called in the event loop, which it may wait for.

        ``called.path``: as it was sent, percent-encoded.
        """
        rest = called.path.removeprefix(PREFIX)
        try:
            peer = login(self._auth, peer, called.headers.get("authorization", "").encode())
            if rest == DOCUMENT:
                return self._document(called.method)
            return self._call(called, rest, peer)
        except Refused as error:
            return problem_answer(
                error.status, str(error), allow=dict(error.headers).get(b"allow", b"").decode()
            )
        except MainstemError as error:
            return problem_answer(STATUSES[error.failure], str(error), error.failure)

    def _call(self, called: Called, rest: str, peer: Peer) -> HttpAnswer:
        operation, in_path = self._find(called.method, _segments(rest))
        has_body = called.method in _WITH_BODY
        fields = called.fields
        check_run(fields, self._run_id)
        if has_body and fields:
            raise Refused(400, f"{called.method} takes its arguments in the body, not in the query")
        if called.body and not has_body:
            raise Refused(400, f"{called.method} takes its arguments in the query, not in a body")
        if called.body:
            check_json(called.headers)
        given: dict[str, object] = object_in(called.body) if has_body else dict(fields)
        if twice := given.keys() & in_path.keys():
            raise Refused(400, f"{min(twice)!r:.100} is given by the path")
        found = operation.run(peer, given | in_path, text=not has_body)
        if found is None:
            return HttpAnswer(204, b"", JSON_TYPE)
        return HttpAnswer(200, msgspec.json.encode(found), JSON_TYPE)

    def _find(self, method: str, path: tuple[str, ...]) -> tuple[Operation, dict[str, str]]:
        there = self._administration.at(path)
        method = "GET" if method == "HEAD" else method
        for operation, arguments in there:
            if operation.method == method:
                return operation, arguments
        if there:
            allowed = sorted({each.method for each, _ in there})
            allow = (b"allow", ", ".join(allowed).encode())
            raise Refused(405, f"this address answers {' and '.join(allowed)}", [allow])
        raise NotOffered(
            f"nothing is offered at {PREFIX}{'/'.join(path)!s:.200}; what is, says "
            f"{PREFIX}{DOCUMENT}; what a head offers is there while it is on"
        )

    def _document(self, method: str) -> HttpAnswer:
        if method not in ("GET", "HEAD"):
            raise Refused(405, f"{PREFIX}{DOCUMENT} answers GET", [(b"allow", b"GET")])
        found = document(self._administration, PREFIX, self._version)
        return HttpAnswer(200, msgspec.json.encode(found), JSON_TYPE)


class NotOffered(MainstemError, failure=Failure.NOT_FOUND):
    """No operation has this path."""


def _segments(path: str) -> tuple[str, ...]:
    try:
        return tuple(unquote_to_bytes(each).decode() for each in path.split("/"))
    except UnicodeDecodeError:
        raise Refused(400, "the path is not valid UTF-8") from None
