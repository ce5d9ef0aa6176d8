"""The addresses of the HTTP head."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.routing import Route, Router, WebSocketRoute

from mainstem.heads.http.adapter import dead_letters, groups, queues, settling
from mainstem.heads.http.adapter.publishing import publish
from mainstem.heads.http.adapter.reading import read
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.single_event import read_one
from mainstem.heads.http.adapter.websocket.conversation import WebSocketApp

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from mainstem.heads.http.adapter.event_stream import EventStream

QUEUE = "/topics/{topic}/queues/{queue}"

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
            WebSocketRoute("/ws", WebSocketApp(service)),
            route("/topics/{topic}/events/{partition}/{offset}", "GET", read_one),
            route("/topics/{topic}/groups/{group}", "GET", groups.show),
            route("/topics/{topic}/groups/{group}", "PUT", groups.commit),
            route("/groups/{group}", "DELETE", groups.delete),
            route(QUEUE, "PUT", queues.create),
            route(QUEUE, "GET", queues.show),
            route(QUEUE, "DELETE", queues.delete),
            route(f"{QUEUE}/leases", "POST", queues.lease),
            route(f"{QUEUE}/settlements", "POST", settling.settle_many),
            route(f"{QUEUE}/deliveries/{{delivery}}/{{action}}", "POST", settling.settle_one),
            route("/topics/{topic}/dead-letters", "GET", dead_letters.letters),
            route("/topics/{topic}/dead-letters/redrive", "POST", dead_letters.redrive),
        ]
    )
