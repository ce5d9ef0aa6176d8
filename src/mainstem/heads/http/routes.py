"""The addresses of the HTTP head."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute

from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.websocket.conversation import WebSocketApp
from mainstem.heads.http.api import document
from mainstem.heads.http.api.operations import OPERATIONS, Endpoint

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


def app_of(service: Service) -> Router:
    """Return the ASGI app of the HTTP head."""
    # One route for each path, so that a wrong method is told all that there are.
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in OPERATIONS:
        by_path.setdefault(each.path, {})[each.method] = each.endpoint
    return Router(
        [
            *(_route(service, path, endpoints) for path, endpoints in by_path.items()),
            WebSocketRoute("/ws", WebSocketApp(service)),
            Route(document.PATH, _document),
        ]
    )


class _Endpoints:
    """The endpoints of one path, as an ASGI app."""

    def __init__(self, service: Service, endpoints: Mapping[str, Endpoint]) -> None:
        self._service, self._endpoints = service, endpoints

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        response = await self._endpoints[scope["method"]](self._service, Request(scope, receive))
        await response(scope, receive, send)


def _route(service: Service, path: str, endpoints: Mapping[str, Endpoint]) -> Route:
    if "GET" in endpoints:
        endpoints = {**endpoints, "HEAD": endpoints["GET"]}
    return Route(path, _Endpoints(service, endpoints), methods=list(endpoints))


async def _document(_request: "Request") -> Response:
    return Response(document.encoded(), media_type="application/json")
