"""The addresses of the HTTP head."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.routing import Route, Router

from mainstem.heads.http.adapter.publishing import publish
from mainstem.heads.http.adapter.reading import read
from mainstem.heads.http.adapter.service import Service

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from mainstem.heads.http.adapter.event_stream import EventStream

Endpoint = Callable[[Service, "Request"], Awaitable["Response | EventStream"]]


def app_of(service: Service) -> Router:
    """Return the ASGI app of the HTTP head."""

    def route(path: str, method: str, endpoint: Endpoint) -> Route:
        async def answer(request: "Request") -> "Response | EventStream":
            return await endpoint(service, request)

        return Route(path, answer, methods=[method])

    return Router(
        [
            route("/topics/{topic}/events", "POST", publish),
            route("/topics/{topic}/events", "GET", read),
        ]
    )
