"""Receives webhooks over HTTP: ``POST /hooks/SOURCE``."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from mainstem.heads.web.body import read_body
from mainstem.heads.web.login import peer_of
from mainstem.heads.web.problem import Refused
from mainstem.heads.webhooks.adapter.service import Service
from mainstem.heads.webhooks.adapter.sources import Sources, UnknownSource
from mainstem.heads.webhooks.verification import NotVerified, Reason

_MALFORMED = (Reason.MALFORMED, Reason.NO_ID, Reason.NO_TIMESTAMP)
UNKNOWN = "unknown source"


def app_of(service: Service, sources: Sources) -> Router:
    """Return the ASGI app that receives webhooks."""

    async def receive(request: Request) -> Response:
        body = await read_body(request.scope, request.receive, service.settings.max_body_bytes)
        headers = dict(request.headers)
        peer = peer_of(request.scope)
        try:
            received = await sources.receive(request.path_params["source"], headers, body, peer)
        except UnknownSource:
            service.counts.received[UNKNOWN] += 1
            raise
        except NotVerified as error:
            status = 400 if error.reason in _MALFORMED else 401
            raise Refused(status, f"the webhook is not accepted: {error.reason}") from None
        if received.challenge is not None:
            return PlainTextResponse(received.challenge)
        return Response(status_code=204)

    return Router([Route("/hooks/{source}", receive, methods=["POST"])])
