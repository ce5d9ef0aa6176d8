"""A made-up app on the common HTTP runtime, in the test's own loop, and raw peers of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, Router, WebSocketRoute
from starlette.websockets import WebSocket
from tests.broker.brokers import Clock, new_broker
from tests.heads.contexts import context_on
from tests.heads.started import nothing_unexpected

from mainstem.auth import Auth
from mainstem.core.errors import UnknownTopic
from mainstem.heads.context import HeadContext
from mainstem.heads.transport.server import bind
from mainstem.heads.web.body import read_body
from mainstem.heads.web.limits import WebLimits
from mainstem.heads.web.login import user_of
from mainstem.heads.web.origin import Origins, with_cors
from mainstem.heads.web.problem import Refused
from mainstem.heads.web.server import WebServer, serve_app

LIMITS = WebLimits()
ORIGINS = Origins(hostless=frozenset(("/livez",)), allowed=frozenset(("https://shop.example",)))
PATIENCE_S = 20


class Made:
    """An app with one route for each thing that an app can do."""

    def __init__(self, context: HeadContext, limits: WebLimits) -> None:
        self.context, self.limits = context, limits
        self.go_on = asyncio.Event()
        self.waiting = 0
        """Requests that wait now."""
        self.gone = 0
        """Requests whose peer went away while they waited."""
        self.lines_sent = 0
        self.routes = Router(
            [
                Route("/livez", self.livez),
                Route("/size", self.size, methods=["POST", "PUT"]),
                Route("/whoami", self.whoami),
                Route("/wait", self.wait),
                Route("/lines", self.lines),
                Route("/unknown", self.unknown),
                Route("/teapot", self.teapot),
                Route("/bug", self.bug),
                WebSocketRoute("/echo", self.echo),
            ]
        )

    async def livez(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def size(self, request: Request) -> Response:
        body = await read_body(request.scope, request.receive, self.limits.max_body_bytes)
        return JSONResponse({"size": len(body), "headers": len(request.headers)})

    async def whoami(self, request: Request) -> Response:
        peer = user_of(self.context.auth, request.scope)
        return JSONResponse({"name": peer.principal.name, "local": peer.is_local})

    async def wait(self, request: Request) -> Response:
        """Wait until a test says so, the peer goes, or the server drains."""
        ended = asyncio.Event()
        unregister = self.context.wait_with(ended.set)
        waits = [
            asyncio.create_task(each)
            for each in (self.go_on.wait(), ended.wait(), self._until_gone(request))
        ]
        self.waiting += 1
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.waiting -= 1
            unregister()
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return PlainTextResponse("drained\n" if ended.is_set() else "done\n")

    async def _until_gone(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.gone += 1

    async def lines(self, _: Request) -> Response:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1023 + b"\n"
                self.lines_sent += 1
                await asyncio.sleep(0)

        return StreamingResponse(endless())

    async def unknown(self, _: Request) -> Response:
        raise UnknownTopic("orders")

    async def teapot(self, _: Request) -> Response:
        raise Refused(418, "no coffee", [(b"x-pot", b"tea")])

    async def bug(self, _: Request) -> Response:
        raise KeyError("a bug")

    async def echo(self, socket: WebSocket) -> None:
        await socket.accept()
        while True:
            await socket.send_text(await socket.receive_text())


class Serving:
    """A served app."""

    def __init__(self, app: Made, server: WebServer) -> None:
        self.app, self.server = app, server
        self.address = str(server.address)
        self.url = f"http://{self.address}"

    async def connect(self) -> "Raw":
        """Connect, to say any bytes."""
        return Raw(*await asyncio.open_connection(*self.server.address.pair))

    async def asked(self, sent: bytes) -> "Raw":
        """Connect, and send bytes."""
        peer = await self.connect()
        await peer.say(sent)
        return peer

    async def answer_to(self, sent: bytes) -> bytes:
        """Send bytes on a new connection; return everything until the server ends it."""
        peer = await self.connect()
        try:
            return await peer.answer_to(sent)
        finally:
            await peer.close()

    async def is_well(self) -> bool:
        """Tell whether a healthy peer is answered."""
        heard = await self.answer_to(asked("GET /livez", "Connection: close"))
        return heard.startswith(b"HTTP/1.1 200 OK\r\n") and heard.endswith(b"\r\n\r\nok\n")


class Raw:
    """A peer that says any bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @property
    def name(self) -> str:
        """The address by which the server knows this peer."""
        return "{}:{}".format(*self.writer.get_extra_info("sockname"))

    async def say(self, sent: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.write(sent)
            await self.writer.drain()

    async def until(self, wanted: bytes) -> bytes:
        """Return what comes up to some bytes."""
        return await asyncio.wait_for(self.reader.readuntil(wanted), PATIENCE_S)

    async def rest(self) -> bytes:
        """Return everything until the server ends the connection."""
        found = b""
        with contextlib.suppress(ConnectionError):
            while more := await asyncio.wait_for(self.reader.read(65536), PATIENCE_S):
                found += more
        return found

    async def answer_to(self, sent: bytes) -> bytes:
        saying = asyncio.create_task(self.say(sent))
        found = await self.rest()
        saying.cancel()
        await asyncio.gather(saying, return_exceptions=True)
        return found

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(
    limits: WebLimits = LIMITS, origins: Origins = ORIGINS, auth: Auth | None = None
) -> AsyncIterator[Serving]:
    """Serve the made-up app until the block ends."""
    context = context_on(new_broker(), Clock(), auth=auth)
    app = Made(context, limits)
    with bind("127.0.0.1", 0) as listener, nothing_unexpected():
        served = with_cors(app.routes, origins)
        server = serve_app(context, served, listener, limits, origins, websockets=True)
        try:
            yield Serving(app, server)
        finally:
            await server.close()


def asked(first: str, *headers: str, body: bytes = b"", host: str | None = "localhost") -> bytes:
    """Write a request."""
    lines = [f"{first} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def status_of(answer: bytes) -> int:
    """Return the status of a response."""
    return int(answer.split(b" ", 2)[1])


def problem_in(answer: bytes) -> dict[str, object]:
    """Return the problem that a response consists of."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/problem+json" in head.lower()
    found: dict[str, object] = json.loads(body)
    assert found["status"] == status_of(answer)
    return found
