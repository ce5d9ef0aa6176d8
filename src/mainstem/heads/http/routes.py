"""The routes of the HTTP head: finds the operation for a path and method.

How this works: a path is matched as it was sent, percent-encoded, so that a name may contain a
slash (``%2F``); the names in it are decoded afterwards. A parameter of the query that the operation
does not have is refused: a misspelt one would otherwise be ignored.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute

from mainstem.core.errors import InvalidSetting
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.websocket.conversation import WebSocketApp
from mainstem.heads.http.api import document
from mainstem.heads.http.api.operations import OPERATIONS, Endpoint, Operation
from mainstem.heads.web.problem import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def app_of(service: Service) -> "ASGIApp":
    """Return the ASGI app of the HTTP head."""
    # One route for each path, so that the error for a wrong method lists all methods of the path.
    by_path: dict[str, dict[str, Operation]] = {}
    for each in OPERATIONS:
        by_path.setdefault(each.path, {})[each.method] = each
    router = Router(
        [
            *(_route(service, path, operations) for path, operations in by_path.items()),
            WebSocketRoute("/ws", WebSocketApp(service)),
            Route(document.PATH, _document),
        ],
        redirect_slashes=False,
        default=_nothing,
    )

    async def app(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if b"%" in scope["raw_path"]:
            scope["path"] = scope["raw_path"].decode("ascii")
        await router(scope, receive, send)

    return app


class _Endpoints:
    """The operations of one path, by method, as an ASGI app."""

    def __init__(self, service: Service, operations: Mapping[str, Operation]) -> None:
        self._service = service
        self._endpoints: dict[str, tuple[Endpoint, Collection[str]]] = {
            method: (each.endpoint, tuple(it.name for it in each.parameters if it.place == "query"))
            for method, each in operations.items()
        }

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        endpoint, parameters = self._endpoints[scope["method"]]
        request = Request(scope, receive)
        if scope["query_string"]:
            _check_query(request.query_params.keys(), parameters)
        if "%" in scope["path"]:
            scope["path_params"] = {
                name: _decoded(each) for name, each in scope["path_params"].items()
            }
        response = await endpoint(self._service, request)
        await response(scope, receive, send)


def _route(service: Service, path: str, operations: Mapping[str, Operation]) -> Route:
    if "GET" in operations:
        operations = {**operations, "HEAD": operations["GET"]}
    return Route(path, _Endpoints(service, operations), methods=list(operations))


def _check_query(given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "this address has none"
            raise InvalidSetting(f"{name!r:.100} is no parameter here; {there}")


def _decoded(name: str) -> str:
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise Refused(400, "the path is not valid UTF-8") from None


async def _nothing(scope: "Scope", _receive: "Receive", _send: "Send") -> None:
    at = scope["path"]
    raise Refused(404, f"there is no address {at!r:.200}; {document.PATH} lists those that are")


async def _document(_request: "Request") -> Response:
    return Response(document.encoded(), media_type="application/json")
