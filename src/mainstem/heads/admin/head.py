"""The admin head: serves browsers, probes and Prometheus over HTTP."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.auth import Peer
from mainstem.heads.admin.adapter import Pages
from mainstem.heads.admin.operations import OperationPages, method_refused
from mainstem.heads.admin.session import PIECE_BYTES, HttpAnswer, HttpRequest, HttpSession
from mainstem.heads.admin.settings import AdminSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Answer, Later, Outbox, ProtocolError
from mainstem.heads.transport.server import Server, serve
from mainstem.heads.transport.timer import now_ms

if TYPE_CHECKING:
    import socket

_logger = logging.getLogger("mainstem.heads.admin")

_IN_WORK = 256
"""Connections allowed besides those still sending their request: being answered or closed."""


class AdminConversation:
    """One HTTP connection, which carries one request."""

    def __init__(
        self,
        outbox: Outbox,
        making: "_Making",
        settings: AdminSettings,
        waiting: "dict[AdminConversation, None]",
    ) -> None:
        self._outbox = outbox
        self._making = making
        self._waiting = waiting
        """Connections whose request has not arrived, the oldest first."""
        self._session = HttpSession()
        self._asked = False
        self._request_s = settings.request_s
        self._until_ms = now_ms() + int(settings.request_s * 1000)

    def give_way(self) -> None:
        """Close a connection that sent no request, to make room for new ones."""
        self._waiting.pop(self, None)
        self._outbox.close("it sent no request, and others need the connection")

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the next piece of input: a request is parsed piece by piece."""
        return min(len(view), PIECE_BYTES) or None

    def handle(self, frame: memoryview) -> Answer | Later:
        """Parse a piece of input; answer the request once complete, and ignore later bytes."""
        if self._asked:
            return ()
        request = self._session.receive(bytes(frame))
        if request is None:
            return ()
        self._asked = True
        self._waiting.pop(self, None)
        later = Later()

        def reply(answer: HttpAnswer) -> None:
            later.settle((self._session.send(answer),))
            # The event loop sends the answer first.
            asyncio.get_running_loop().call_soon(self._outbox.close)

        self._making.make(request, reply, Peer(self._outbox.peer, tls=self._outbox.is_tls))
        return later if later.answer is None else later.take()

    def deadline(self) -> int | None:
        """Return when (monotonic ms) the request must be complete, None if it already is."""
        return None if self._asked else self._until_ms

    def tick(self, now_ms: int) -> Answer:
        """Disconnect a peer whose request is not complete in time."""
        raise ProtocolError(f"no whole request came within {self._request_s:g} s")

    def close(self) -> None:
        """Remove this connection from the connections whose request has not arrived."""
        self._waiting.pop(self, None)


class _Making:
    """Creates the answers to requests; pages that take long are created in a thread.

    A slow page that several peers request at the same time is created once.
    """

    def __init__(self, pages: Pages, operations: OperationPages) -> None:
        self._pages = pages
        self._operations = operations
        self._waiting: dict[str, list[Callable[[HttpAnswer], None]]] = {}

    def make(self, request: HttpRequest, reply: Callable[[HttpAnswer], None], peer: Peer) -> None:
        if request.posts and self._pages.has(request.path):
            reply(method_refused(request, "GET, HEAD"))
            return
        if self._operations.is_for(request):
            running = asyncio.get_running_loop().run_in_executor(
                None, self._operations.answer, request, peer
            )
            running.add_done_callback(lambda made: reply(_answer(made, request.path)))
            return
        path = request.target
        refusal = self._pages.refusal(path, peer, request.authorization)
        if refusal is not None:
            reply(refusal)
            return
        if not self._pages.is_slow(path):
            reply(self._pages.answer(path))
            return
        waiting = self._waiting.setdefault(path, [])
        waiting.append(reply)
        if len(waiting) == 1:
            making = asyncio.get_running_loop().run_in_executor(None, self._pages.answer, path)
            making.add_done_callback(lambda made: self._made(path, made))

    def _made(self, path: str, made: "asyncio.Future[HttpAnswer]") -> None:
        answer = _answer(made, path)
        for reply in self._waiting.pop(path):
            reply(answer)


def _answer(made: "asyncio.Future[HttpAnswer]", path: str) -> HttpAnswer:
    error = asyncio.CancelledError() if made.cancelled() else made.exception()
    if error is None:
        return made.result()
    _logger.error("%s could not be made", path, exc_info=error)
    return HttpAnswer(500, f"{path} could not be made; the server's log says why\n".encode())


async def start(context: HeadContext, settings: AdminSettings, listener: "socket.socket") -> Server:
    """Start the admin head on a bound socket; return its server."""
    pages = Pages(context.operations, context.run_id, context.auth)
    operations = OperationPages(context.administration, context.auth, context.run_id)
    return listen(pages, operations, listener, settings)


def listen(
    pages: Pages,
    operations: OperationPages,
    listener: "socket.socket",
    settings: AdminSettings | None = None,
) -> Server:
    """Start an HTTP server for pages and operations on a bound socket."""
    chosen = settings or AdminSettings()
    making = _Making(pages, operations)

    waiting: dict[AdminConversation, None] = {}

    def converse(outbox: Outbox) -> AdminConversation:
        # Connections that send nothing must not block health checks.
        if len(waiting) >= chosen.max_connections:
            next(iter(waiting)).give_way()
        conversation = AdminConversation(outbox, making, chosen, waiting)
        waiting[conversation] = None
        return conversation

    return serve(listener, converse, max_connections=chosen.max_connections + _IN_WORK)
