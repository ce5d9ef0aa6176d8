"""The REST API of Kafka Connect as an ASGI app; errors are ``{"error_code", "message"}``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response
from starlette.routing import Route, Router

from mainstem.auth import CLUSTER, Action
from mainstem.core.errors import MainstemError
from mainstem.heads.connect import requests
from mainstem.heads.connect.adapter import Connectors
from mainstem.heads.connect.requests import Asked, Reply
from mainstem.heads.context import HeadContext
from mainstem.heads.web.body import read_body
from mainstem.heads.web.login import user_of
from mainstem.heads.web.problem import CHALLENGE, STATUSES, Refused
from mainstem.heads.web.threads import in_thread

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send


def connect_app(context: HeadContext, max_body_bytes: int) -> "ASGIApp":
    """Return the app of Kafka Connect's REST API."""

    def route(path: str, method: str, answer: Callable[[Asked], Reply]) -> Route:
        async def endpoint(request: "Request") -> Response:
            try:
                body = await read_body(request.scope, request.receive, max_body_bytes)
                peer = user_of(context.auth, request.scope)
                # Changes need more permissions, which their operations check.
                context.auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)
                connectors = Connectors(context, peer)
                asked = Asked(connectors, request.path_params, dict(request.query_params), body)
                reply = await in_thread(lambda: answer(asked))
            except Refused as error:
                return _error(error.status, str(error))
            except MainstemError as error:
                return _error(STATUSES[error.failure], str(error))
            return _json(reply.status, reply.body)

        return Route(path, endpoint, methods=[method])

    async def unknown(scope: "Scope", receive: "Receive", send: "Send") -> None:
        refused = _error(404, "HTTP 404 Not Found: Kafka Connect has no such address, or not here")
        await refused(scope, receive, send)

    return Router(
        [route(path, method, answer) for (method, path), answer in requests.ROUTES.items()],
        default=unknown,
        redirect_slashes=False,
    )


def _json(status: int, value: object) -> Response:
    headers = {"Cache-Control": "no-store"}
    if status == 204:
        return Response(None, status, headers)
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _error(status: int, message: str) -> Response:
    readable = message.encode("utf-8", "replace").decode()
    response = _json(status, {"error_code": status, "message": readable})
    if status == 401:
        name, value = CHALLENGE
        response.headers[name.decode()] = value.decode()
    return response
