"""Sends the answers of a REP socket when nng can take them.

How this works: nng drops an answer while the one before, to the same peer, is being written, and a
peer may be so fast that it asks again before nng knows that it is written. So the socket is not
read for a moment, until nng takes the answer. A peer that does not read its answers delays the
others in this way only once, until it reads again.
"""

from collections.abc import Callable

from mainstem.heads.context import HeadContext
from mainstem.heads.transport.nng_socket import NngSocket

RETRY_MS = 1
PATIENCE = 20
"""How many times it is tried again."""


class Answers:
    """Sends the answers of a REP socket, one after another."""

    def __init__(self, context: HeadContext, opened: NngSocket) -> None:
        self._context, self._socket = context, opened
        self._slow = set[int]()
        """Numbers of the connections that did not take an answer in time."""

    def send(self, data: bytes, done: Callable[[bool], None]) -> None:
        """Answer the last request; ``done`` is called with whether nng has taken the answer."""
        opened = self._socket
        if opened.takes() or opened.sender in self._slow:
            self._send(data, done)
        else:
            opened.pause()
            self._wait(data, done, PATIENCE)

    def _wait(self, data: bytes, done: Callable[[bool], None], left: int) -> None:
        def again() -> None:
            opened = self._socket
            if left and opened.sender in opened.peers and not opened.takes():
                self._wait(data, done, left - 1)
            else:
                opened.resume()
                self._send(data, done)

        self._context.after(RETRY_MS, again)

    def _send(self, data: bytes, done: Callable[[bool], None]) -> None:
        # After this call nng has forgotten who asked, even if it has not taken the answer.
        is_sent, sender = self._socket.send(data), self._socket.sender
        if is_sent:
            self._slow.discard(sender)
        else:
            self._slow = (self._slow | {sender}) & self._socket.peers.keys()
        done(is_sent)
