"""ZeroMQ sockets in the node's event loop; only imported by heads that use them.

How this works: libzmq has threads of its own for TCP. It signals through a file descriptor that a
socket may have changed state, once per change. So after each signal, and after each send, the
socket is read until it is empty; a busy socket takes turns with the rest of the loop. Connections
are known from the events of libzmq's socket monitors.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import zmq
from zmq.utils.monitor import parse_monitor_message

from mainstem.core.errors import InvalidSetting
from mainstem.heads.addresses import Address, address_of
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

_logger = logging.getLogger("mainstem.heads")

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
    """A message, and who sent it."""

    frames: list[bytes]
    user: str = ""
    """Whom the peer has logged in as; empty if nobody."""
    host: str = ""
    """The peer's host; empty if the peer has gone."""


Receive = Callable[[list[Received]], None]


class ZmqSocket:
    """A socket that a head sends and receives messages through; never blocks."""

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

        ``identifies``: whether received messages tell their sender. ``per_turn``: how many are
        received before the loop does something else.
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
        """Send a message; False if it was not taken, as a peer's high-water mark is reached."""
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
        """Look for messages soon: a call of libzmq may have used up the signal of the next one."""
        if not self._is_due:
            self._soon()

    @property
    def is_writable(self) -> bool:
        """Whether a message would be taken now."""
        return bool(int(self.raw.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call ``call`` once a message would be taken."""
        self._waiting = call
        self._soon()

    def pause(self) -> None:
        """Receive nothing for now, so that the peers' queues fill up."""
        self._is_paused = True

    def resume(self) -> None:
        """Receive again."""
        self._is_paused = False
        self._soon()

    def close(self, linger_ms: int = 0) -> None:
        """Close the socket; what was sent may still leave for ``linger_ms``."""
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
        # There may be more, or the head's answers use up the next signal.
        self._soon()
        try:
            self._receive(found)
        except Exception:
            self.traffic.cut_off += len(found)
            _logger.exception("%d messages could not be handled", len(found))

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
    """The sockets of a head, and the connections to them."""

    def __init__(self, options: dict[int, int]) -> None:
        """``options``: socket options of all of them."""
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
        """Open a socket of a kind, such as ``zmq.PULL``."""
        found = self._context.socket(kind)
        for option, value in {**self._options, **(options or {})}.items():
            found.set(option, value)
        opened = ZmqSocket(found, self.traffic, receive, identifies=identifies, per_turn=per_turn)
        self._sockets.append(opened)
        return opened

    def serve(self, opened: ZmqSocket, listener: socket.socket) -> None:
        """Accept the connections of a listening TCP socket, which belongs to libzmq from now on."""
        self._monitors.append(_Monitor(self._context, opened.raw, self.traffic))
        at = address_of(listener)
        # libzmq closes it when it stops to listen.
        opened.raw.setsockopt(zmq.USE_FD, listener.dup().detach())
        listener.close()
        opened.raw.bind(f"tcp://{at}")

    def bind(self, opened: ZmqSocket, address: Address, setting: str) -> Address:
        """Listen on an address, which a setting names; raises InvalidSetting if it is taken."""
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
        """Close all sockets and connections; what was sent may still leave for ``linger_ms``."""
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
        """Address of each connection, and since when, by file descriptor."""
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
        """Stop watching: all connections are closed."""
        if self._events.closed:
            return
        self._loop.remove_reader(self._number)
        self._events.close(0)
        self._traffic.closed += len(self.peers)
        self.peers.clear()

    def _turn(self) -> None:
        # Only asking for the state makes libzmq look at everything that has come.
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
    """Return the address of a connection by its file descriptor, which libzmq may close."""
    try:
        with socket.socket(fileno=os.dup(number)) as copy:
            host, port, *_ = copy.getpeername()
    except OSError:
        return "?:0"
    return str(Address(str(host), int(port)))
