"""The admin port as an ASGI app: pages, operations by name, and the API."""

from typing import TYPE_CHECKING

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from mainstem.heads.admin.adapter import Pages, said
from mainstem.heads.admin.answer import HttpAnswer, method_refused, response_of
from mainstem.heads.admin.api import METHODS, PREFIX, Api
from mainstem.heads.admin.operations import Called, OperationPages, check_post
from mainstem.heads.admin.query import fields_of
from mainstem.heads.admin.settings import MAX_BODY_BYTES
from mainstem.heads.web.body import read_body
from mainstem.heads.web.login import peer_of
from mainstem.heads.web.origin import Origins
from mainstem.heads.web.problem import Refused
from mainstem.heads.web.threads import OncePerKey, in_thread

if TYPE_CHECKING:
    from starlette.types import ASGIApp

ORIGINS = Origins(hostless=frozenset(("/livez", "/readyz")))
"""Load balancers probe the health pages with HTTP/1.0, without a Host header; all other requests
need one.
"""


def admin_app(pages: Pages, operations: OperationPages, api: Api) -> "ASGIApp":
    """Return the ASGI app of the admin port."""
    app = _AdminApp(pages, operations, api)
    return Router(
        [
            Route(f"{PREFIX}{{path:path}}", app.call, methods=METHODS),
            Route("/{path:path}", app.answer, methods=["GET", "POST"]),
        ]
    )


class _AdminApp:
    """Answers requests; slow ones in threads."""

    def __init__(self, pages: Pages, operations: OperationPages, api: Api) -> None:
        self._pages, self._operations, self._api = pages, operations, api
        self._made = OncePerKey[HttpAnswer]()
        """Shares one call among peers that request the same slow page at the same time."""

    async def answer(self, request: Request) -> Response:
        """Answer a request for a page or an operation."""
        path, posts = request.url.path, request.method == "POST"
        if posts and self._pages.has(path):
            return response_of(method_refused(path, request.method, "GET, HEAD"))
        if posts:
            check_post(request.headers)
        if posts or self._operations.has(path):
            return await self._operate(request, path)
        return response_of(await self._page(request, path))

    async def call(self, request: Request) -> Response:
        """Answer a request below ``/api/v1``."""
        called = await _called(request, request.scope["raw_path"].decode("ascii"))
        peer = peer_of(request.scope)
        return response_of(await in_thread(lambda: self._api.answer(called, peer)))

    async def _operate(self, request: Request, path: str) -> Response:
        called = await _called(request, path)
        peer = peer_of(request.scope)
        return response_of(await in_thread(lambda: self._operations.answer(called, peer)))

    async def _page(self, request: Request, path: str) -> HttpAnswer:
        if not self._pages.is_slow(path):
            return self._pages.answer(path, {})
        try:
            fields = _fields(request)
        except Refused as error:
            return said(error.status, str(error))
        authorization = request.headers.get("authorization", "").encode()
        refusal = self._pages.refusal(path, fields, peer_of(request.scope), authorization)
        if refusal is not None:
            return refusal
        return await self._made.run(str(request.url), lambda: self._pages.answer(path, fields))


async def _called(request: Request, path: str) -> Called:
    body = await read_body(request.scope, request.receive, MAX_BODY_BYTES)
    return Called(request.method, path, _fields(request), request.headers, body)


def _fields(request: Request) -> dict[str, str]:
    query: QueryParams = request.query_params
    return fields_of(query.multi_items())
