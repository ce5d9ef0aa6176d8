"""Serves an ASGI app on a bound socket, in the node's own event loop.

How this works: connections are accepted as for every other head (``transport.acceptor``), and
handled by uvicorn's protocols (``connection.py``). uvicorn's own server is not used: it would
install signal handlers and open sockets. An error that the app raises becomes a problem response.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from email.utils import formatdate
from typing import TYPE_CHECKING, cast

from uvicorn.config import Config

from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.acceptor import Acceptor
from mainstem.heads.transport.draining import drained
from mainstem.heads.transport.refusal import Refusal
from mainstem.heads.transport.server import no_samples
from mainstem.heads.transport.timer import now_ms
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic
from mainstem.heads.web.body import Disconnected
from mainstem.heads.web.connection import HttpConnection, Shared
from mainstem.heads.web.limits import WebLimits
from mainstem.heads.web.origin import Origins
from mainstem.heads.web.problem import NO_SNIFFING, PROBLEM_TYPE, Refused, problem, problem_of

if TYPE_CHECKING:
    import socket
    import ssl

    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn._types import ASGI3Application

_logger = logging.getLogger("mainstem.heads")


class WebServer:
    """A listening socket and its connections: the ``RunningHead`` of heads that speak HTTP."""

    def __init__(
        self,
        shared: Shared,
        acceptor: "Acceptor[HttpConnection | Refusal]",
        samples: Callable[[], Iterable[tuple[Metric, Sample]]],
    ) -> None:
        self.traffic, self.address = shared.traffic, acceptor.address
        self.samples = samples
        """Returns the head's own metrics with their values; may be called from any thread."""
        self._shared, self._acceptor = shared, acceptor
        self._clock: asyncio.TimerHandle | None = None
        self._keep_date()

    def connections(self) -> list[ConnectionInfo]:
        """Return the connected peers; may be called from any thread."""
        now = now_ms()
        opened = self._shared.open.copy()
        return [ConnectionInfo(each.peer, (now - each.since_ms) / 1000) for each in opened]

    async def drain(self, within_s: float, hurry: asyncio.Event) -> None:
        """Accept no more connections and requests; wait until the earlier ones are answered."""
        self._acceptor.close()
        # Some iterations of the loop, so that requests that have arrived are read and answered.
        for _ in range(3):
            await asyncio.sleep(0)
        self._shared.draining = True
        for connection in list(self._shared.open):
            connection.shutdown()
        await drained(self._shared.open, within_s, hurry)

    async def close(self) -> None:
        """Close every connection, and cancel the requests that are not answered."""
        self._acceptor.close()
        self._shared.draining = True
        if self._clock is not None:
            self._clock.cancel()
        for connection in list(self._shared.open):
            connection.abort()
        await asyncio.sleep(0)
        tasks = list(self._shared.state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep_date(self) -> None:
        """Update the Date header of all answers once a second [RFC 9110, 6.6.1]."""
        date = formatdate(usegmt=True).encode()
        self._shared.state.default_headers[:] = [(b"date", date), NO_SNIFFING]
        self._clock = asyncio.get_running_loop().call_later(1, self._keep_date)


def serve_app(
    context: HeadContext,
    app: "ASGIApp",
    listener: "socket.socket",
    limits: WebLimits,
    origins: Origins | None = None,
    *,
    websockets: bool = False,
    samples: Callable[[], Iterable[tuple[Metric, Sample]]] = no_samples,
    tls: "ssl.SSLContext | None" = None,
    traffic: Traffic | None = None,
) -> WebServer:
    """Serve an ASGI app on a bound socket until the returned head is closed."""
    config = Config(
        cast("ASGI3Application", with_problems(app)),
        http=HttpConnection,
        ws="websockets-sansio" if websockets else "none",
        ws_max_size=limits.max_message_bytes,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        # A float works: uvicorn only adds it to a time.
        timeout_keep_alive=cast(int, limits.idle_s),
    )
    config.load()
    shared = Shared(config, limits, origins or Origins(), context.auth, traffic or Traffic())

    def connect() -> "HttpConnection | Refusal":
        # ``shared.open`` lacks those whose connection_made was not called yet.
        if shared.traffic.open >= limits.max_connections:
            if not shared.waiting:
                shared.traffic.refused += 1
                return Refusal(shared.traffic.open)
            next(iter(shared.waiting)).give_way()
        shared.traffic.accepted += 1
        return HttpConnection(shared)

    def give_up(protocol: "HttpConnection | Refusal") -> None:
        if isinstance(protocol, HttpConnection):
            shared.traffic.closed += 1
            shared.traffic.cut_off += 1

    return WebServer(shared, Acceptor(listener, connect, give_up, tls), samples)


def with_problems(app: "ASGIApp") -> "ASGIApp":
    """Return an app that answers with a problem if ``app`` raises before its response begins."""

    async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
        started = False

        async def sending(message: "Message") -> None:
            nonlocal started
            started = True
            await send(message)

        # Starlette's routes raise their 404 and 405 if an app is named, or else answer in text.
        scope["app"] = app
        try:
            await app(scope, receive, sending)
        except Disconnected:
            return
        except Exception as error:
            if _is_gone(error):
                return
            status, body, headers = _problem(error, scope, cut_off=started)
            if started:
                # The response has begun, so uvicorn can only close the connection.
                raise
            await _send_problem(scope, send, status, body, headers)

    return answer


def _is_gone(error: Exception) -> bool:
    """Tell whether an error means that the peer has disconnected."""
    from starlette.requests import ClientDisconnect  # noqa: PLC0415 - few apps raise
    from starlette.websockets import WebSocketDisconnect  # noqa: PLC0415 - few apps raise
    from uvicorn.protocols.utils import ClientDisconnected  # noqa: PLC0415 - few apps raise

    return isinstance(error, ClientDisconnect | WebSocketDisconnect | ClientDisconnected)


def _problem(
    error: Exception, scope: "Scope", *, cut_off: bool
) -> tuple[int, bytes, Iterable[tuple[bytes, bytes]]]:
    path = scope["path"]
    if cut_off:
        _logger.error("the answer to %s is cut off", path, exc_info=error)
    if isinstance(error, MainstemError | Refused):
        return problem_of(error)
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - few apps raise

    if isinstance(error, HTTPException):
        headers = [
            (name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()
        ]
        return error.status_code, problem(error.status_code, f"{path}: {error.detail}"), headers
    if not cut_off:
        _logger.error("%s could not be answered", path, exc_info=error)
    return 500, problem(500, f"{path} failed; the server's log says why"), ()


async def _send_problem(
    scope: "Scope",
    send: "Send",
    status: int,
    body: bytes,
    headers: Iterable[tuple[bytes, bytes]],
) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    said = [
        (b"content-type", PROBLEM_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        *headers,
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": said})
    await send({"type": f"{kind}.body", "body": body})
