"""Accepts connections, many in one iteration of the event loop.

With uvloop alone, a server would accept one connection per iteration. While a busy server's
iterations are long, a burst of connections (even short-lived ones) would make later ones wait for
seconds.

With TLS, ``connection_made`` is called after the handshake. A handshake that fails or takes too
long is logged with the peer's address, and ``give_up`` is called with the unused protocol object.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Generic, TypeVar

from mainstem.heads.addresses import address_of

_logger = logging.getLogger("mainstem.heads")

AT_ONCE = 64
"""Maximum number of connections accepted in one iteration of the event loop."""
AGAIN_S = 0.2
"""How long to wait before accepting again, after descriptors or memory ran out."""
HANDSHAKE_S = 10.0
"""How long a peer may take for a TLS handshake."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


Accepted = TypeVar("Accepted", bound=asyncio.BaseProtocol)


class Acceptor(Generic[Accepted]):
    """Accepts connections, and creates a protocol object for each, until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], Accepted],
        give_up: Callable[[Accepted], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        listener.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._connect = connect
        self._give_up = give_up
        self._tls = tls
        self._arriving: set[asyncio.Task[object]] = set()
        self._again: asyncio.TimerHandle | None = None
        self.address = address_of(listener)
        """The address that the listener is bound to."""
        self._listen()

    def close(self) -> None:
        """Accept no more connections."""
        if self._listener.fileno() < 0:
            return
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._tls is not None:
            for handshake in self._arriving:
                handshake.cancel()

    def _listen(self) -> None:
        self._again = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                _logger.warning("cannot accept connections for a moment: %s", error.strerror)
                self._loop.remove_reader(self._listener)
                self._again = self._loop.call_later(AGAIN_S, self._listen)
                return
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._welcome(self._connect(), accepted, f"{peer[0]}:{peer[1]}")

    def _welcome(self, protocol: Accepted, accepted: socket.socket, peer: str) -> None:
        arriving: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
            )
        )
        self._arriving.add(arriving)

        def arrived(task: "asyncio.Task[object]") -> None:
            self._arriving.discard(task)
            if task.cancelled():
                accepted.close()
                self._give_up(protocol)
            elif (error := task.exception()) is not None:
                _logger.warning("closing %s before it has connected: %s", peer, error)
                self._give_up(protocol)

        arriving.add_done_callback(arrived)
