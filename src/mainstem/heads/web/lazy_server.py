"""Loads the HTTP server of a head when the first peer connects.

uvicorn and Starlette take longer to import than everything else that a server needs at its start,
and several megabytes. Until somebody connects, only the socket listens; the kernel keeps new
connections until the import, which runs in a thread, is done.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mainstem.heads.addresses import address_of
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.server import no_samples
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

if TYPE_CHECKING:
    import socket

    from mainstem.heads.web.server import WebServer

_logger = logging.getLogger("mainstem.heads")
Begin = Callable[[Traffic], "WebServer"]
"""Starts the server; called in the event loop."""


class LazyServer:
    """A running head whose HTTP server is loaded when the first peer connects."""

    def __init__(
        self,
        listener: "socket.socket",
        load: Callable[[], Begin],
        samples: Callable[[], Iterable[tuple[Metric, Sample]]] = no_samples,
    ) -> None:
        listener.setblocking(False)
        self.address, self.traffic, self.samples = address_of(listener), Traffic(), samples
        self._listener, self._load = listener, load
        self._loop = asyncio.get_running_loop()
        self._loading: asyncio.Task[None] | None = None
        self._server: WebServer | None = None
        self._loop.add_reader(listener, self._begin_to_load)

    def connections(self) -> Iterable[ConnectionInfo]:
        """Return the connected peers; may be called from any thread."""
        return () if self._server is None else self._server.connections()

    async def drain(self, within_s: float, hurry: asyncio.Event) -> None:
        """Accept no more connections and requests; wait until the earlier ones are answered."""
        server = await self._loaded()
        if server is not None:
            await server.drain(within_s, hurry)

    async def close(self) -> None:
        """Close every connection."""
        server = await self._loaded()
        if server is not None:
            await server.close()

    def _begin_to_load(self) -> None:
        self._loop.remove_reader(self._listener)
        self._loading = self._loop.create_task(self._start())

    async def _start(self) -> None:
        try:
            begin = await asyncio.to_thread(self._load)
            self._server = begin(self.traffic)
        except Exception:
            # Nobody waits for this task before the head is closed.
            _logger.exception("nothing is served at %s", self.address)
            self._listener.close()

    async def _loaded(self) -> "WebServer | None":
        """Return the server when it is loaded; if nobody has connected, stop listening."""
        if self._loading is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._loading
        elif self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        return self._server
