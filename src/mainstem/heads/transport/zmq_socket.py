"""ZeroMQ sockets in the node's event loop; only imported by heads that use them.

How this works: libzmq has threads of its own for TCP. It signals through a file descriptor that a
socket may have changed state, once per change. So after each signal, and after each send, the
socket is read until it is empty, but no more than ``per_turn`` messages in one iteration of the
event loop. Connections are known from the events of libzmq's socket monitors.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import zmq
from zmq.utils.monitor import parse_monitor_message

from mainstem.core.errors import InvalidSetting
from mainstem.heads.addresses import Address, address_of
from mainstem.heads.transport.messages import pass_on
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

MESSAGES_PER_TURN = 256
_DONTWAIT = zmq.DONTWAIT
_MORE = zmq.DONTWAIT | zmq.SNDMORE
_FAILURES = (
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)
_WATCHED = zmq.Event.ACCEPTED | zmq.Event.DISCONNECTED | zmq.Event.CLOSED | _FAILURES


class Received(NamedTuple):
    """A message, and its sender if known."""

    frames: list[bytes]
    user: str = ""
    """The user who has logged in; empty without a login."""
    host: str = ""
    """The peer's host; empty if the peer has disconnected."""


Receive = Callable[[list[Received]], None]


class ZmqSocket:
    """One ZeroMQ socket, to send and receive messages; never blocks."""

    def __init__(
        self,
        found: "zmq.Socket[bytes]",
        traffic: Traffic,
        receive: Receive | None,
        *,
        identifies: bool = False,
        per_turn: int = MESSAGES_PER_TURN,
    ) -> None:
        """Watch the socket; ``receive`` gets its messages.

        ``identifies``: whether received messages have their sender. ``per_turn``: the most messages
        of one call.
        """
        self.raw = found
        self.traffic = traffic
        self._receive = receive
        self._take = self._identified if identifies else self._anonymous
        self._per_turn = per_turn
        self._loop = asyncio.get_running_loop()
        self._number = int(found.getsockopt(zmq.FD))
        self._is_due = self._is_paused = False
        self._waiting: Callable[[], None] | None = None
        self._loop.add_reader(self._number, self._turn)
        self._soon()

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send a message; False if it was dropped, as no peer has room or the peer is gone."""
        send, last = self.raw.send, len(frames) - 1
        try:
            for frame in frames[:last]:
                send(frame, _MORE)
            send(frames[last], _DONTWAIT)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                # The peer of a ROUTER has gone.
                return False
            raise
        finally:
            self.check()
        self.traffic.bytes_out += sum(map(len, frames))
        return True

    def check(self) -> None:
        """Look for messages soon: a call of libzmq may have consumed the signal for them."""
        if not self._is_due:
            self._soon()

    @property
    def is_writable(self) -> bool:
        """Whether a message would be taken now."""
        return bool(int(self.raw.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call ``call`` once when a message would be taken."""
        self._waiting = call
        self._soon()

    def pause(self) -> None:
        """Stop receiving, so that the peers' queues fill up."""
        self._is_paused = True

    def resume(self) -> None:
        """Receive again."""
        self._is_paused = False
        self._soon()

    def close(self, linger_ms: int = 0) -> None:
        """Close the socket; for ``linger_ms``, unsent messages may still be sent."""
        if not self.raw.closed:
            self._loop.remove_reader(self._number)
            self.raw.close(linger_ms)

    def _soon(self) -> None:
        self._is_due = True
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if self.raw.closed:
            return
        events = int(self.raw.getsockopt(zmq.EVENTS))
        if events & zmq.POLLOUT and self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting()
        if self._is_paused or self._receive is None or not events & zmq.POLLIN:
            return
        found = list[Received]()
        with contextlib.suppress(zmq.Again):
            while len(found) < self._per_turn:
                found.append(self._take())
        self.traffic.bytes_in += sum(len(frame) for each in found for frame in each.frames)
        # There may be more messages, or the head's answers may consume the next signal.
        self._soon()
        pass_on(found, self._receive, self.traffic)

    def _anonymous(self) -> Received:
        return Received(self.raw.recv_multipart(_DONTWAIT))

    def _identified(self) -> Received:
        frames = self.raw.recv_multipart(_DONTWAIT, copy=False)
        first = frames[-1]
        return Received(
            [each.bytes for each in frames], _property(first, "User-Id"), _property(first)
        )


def _property(frame: zmq.Frame, name: str = "Peer-Address") -> str:
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""


class ZmqTransport:
    """All sockets of a head, and their connections."""

    def __init__(self, options: dict[int, int]) -> None:
        """``options``: socket options that all sockets get."""
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._context.setsockopt(zmq.MAX_SOCKETS, 1023)
        self._options = options
        self._sockets: list[ZmqSocket] = []
        self._monitors: list[_Monitor] = []
        self.traffic = Traffic()

    def open(
        self,
        kind: int,
        receive: Receive | None = None,
        options: dict[int, int | bytes] | None = None,
        *,
        identifies: bool = False,
        per_turn: int = MESSAGES_PER_TURN,
    ) -> ZmqSocket:
        """Open a socket of a type, such as ``zmq.PULL``."""
        found = self._context.socket(kind)
        for option, value in {**self._options, **(options or {})}.items():
            found.set(option, value)
        opened = ZmqSocket(found, self.traffic, receive, identifies=identifies, per_turn=per_turn)
        self._sockets.append(opened)
        return opened

    def serve(self, opened: ZmqSocket, listener: socket.socket) -> None:
        """Accept connections on a listening TCP socket, which libzmq owns from now on."""
        self._monitors.append(_Monitor(self._context, opened.raw, self.traffic))
        at = address_of(listener)
        # A copy, because libzmq closes the descriptor when it stops listening.
        opened.raw.setsockopt(zmq.USE_FD, listener.dup().detach())
        listener.close()
        opened.raw.bind(f"tcp://{at}")

    def bind(self, opened: ZmqSocket, address: Address, setting: str) -> Address:
        """Listen on an address; return it with the port. Raises InvalidSetting if it is taken.

        ``setting``: the name of the setting with the address.
        """
        from mainstem.heads.transport.server import bind  # noqa: PLC0415 - for its socket options

        try:
            listener = bind(*address.pair)
        except OSError as error:
            raise InvalidSetting(
                f"{setting}: cannot listen on {address}: {error.strerror or error}"
            ) from None
        found = address_of(listener)
        self.serve(opened, listener)
        return found

    def connections(self) -> list[ConnectionInfo]:
        """Return the connected peers; may be called from any thread."""
        now = time.monotonic()
        return [
            ConnectionInfo(peer, now - since)
            for each in self._monitors
            for peer, since in each.peers.copy().values()
        ]

    async def close(self, linger_ms: int) -> None:
        """Close all sockets and connections; for ``linger_ms``, messages may still be sent."""
        for each in self._sockets:
            each.close(linger_ms)
        for monitor in self._monitors:
            monitor.close()
        self._monitors.clear()
        if not self._context.closed:
            # Waits for the threads of libzmq, which end in time.
            await asyncio.get_running_loop().run_in_executor(None, self._context.term)


class _Monitor:
    """Counts the connections of a socket from libzmq's events."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        watched: "zmq.Socket[bytes]",
        traffic: Traffic,
    ) -> None:
        self.peers: dict[int, tuple[str, float]] = {}
        """Address of each connection and when it began (``time.monotonic``), by file descriptor."""
        self._traffic = traffic
        address = f"inproc://monitor-{id(self)}"
        watched.monitor(address, _WATCHED)
        self._events = context.socket(zmq.PAIR)
        self._events.setsockopt(zmq.LINGER, 0)
        self._events.connect(address)
        self._watched = watched
        self._loop = asyncio.get_running_loop()
        self._number = int(self._events.getsockopt(zmq.FD))
        self._loop.add_reader(self._number, self._turn)
        self._loop.call_soon(self._turn)

    def close(self) -> None:
        """Stop watching a socket, and count its connections as closed."""
        if self._events.closed:
            return
        self._loop.remove_reader(self._number)
        self._events.close(0)
        self._traffic.closed += len(self.peers)
        self.peers.clear()

    def _turn(self) -> None:
        # libzmq processes what has arrived only when it is asked for the state.
        while not self._events.closed and int(self._events.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            told = parse_monitor_message(self._events.recv_multipart(_DONTWAIT))
            self._take(told["event"], told["value"])

    def _take(self, event: int, value: int) -> None:
        if event == zmq.Event.ACCEPTED:
            self._traffic.accepted += 1
            self.peers[value] = _peer_of(value), time.monotonic()
        elif event == zmq.Event.DISCONNECTED and value in self.peers:
            del self.peers[value]
            self._traffic.closed += 1
        elif event & _FAILURES:
            self._traffic.cut_off += 1


def _peer_of(number: int) -> str:
    """Return the peer's address of a connection; libzmq may have closed its file descriptor."""
    try:
        with socket.socket(fileno=os.dup(number)) as copy:
            host, port, *_ = copy.getpeername()
    except OSError:
        return "?:0"
    return str(Address(str(host), int(port)))
