"""Accepting connections: many in one turn of the event loop.

uvloop accepts one in each turn. While turns are long, because some peers keep the server busy, a
crowd that comes (even if it goes again at once) would keep those behind it waiting for seconds.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from mainstem.heads.listen import address_of

_logger = logging.getLogger("mainstem.heads")

AT_ONCE = 64
"""Connections accepted in one turn."""
AGAIN_S = 0.2
"""How long nothing is accepted after the system had no room for a connection."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Gives every connection a protocol, until it is closed."""

    def __init__(
        self, listener: socket.socket, connect: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        listener.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._connect = connect
        self._arriving: set[asyncio.Task[object]] = set()
        self._again: asyncio.TimerHandle | None = None
        self.address = address_of(listener)
        """Where it listens."""
        self._listen()

    def close(self) -> None:
        """Accept nobody any more."""
        if self._listener.fileno() < 0:
            return
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        self._again = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
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
            welcome = self._loop.connect_accepted_socket(self._connect, accepted)
            arriving: asyncio.Task[object] = self._loop.create_task(welcome)
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)
