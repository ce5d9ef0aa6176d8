"""The addresses of the HTTP head."""

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute

from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.websocket.conversation import WebSocketApp
from mainstem.heads.http.api import document
from mainstem.heads.http.api.operations import OPERATIONS, Endpoint

if TYPE_CHECKING:
    from starlette.requests import Request

    from mainstem.heads.http.adapter.event_stream import EventStream


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


def _route(service: Service, path: str, endpoints: dict[str, Endpoint]) -> Route:
    if "GET" in endpoints:
        endpoints["HEAD"] = endpoints["GET"]

    async def answer(request: "Request") -> "Response | EventStream":
        return await endpoints[request.method](service, request)

    return Route(path, answer, methods=list(endpoints))


async def _document(_request: "Request") -> Response:
    return Response(document.encoded(), media_type="application/json")
