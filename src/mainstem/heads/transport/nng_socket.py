"""nng sockets in the node's event loop; only imported by heads that use them.

How this works: nng has threads of its own for TCP. Its file descriptors are readable while a
message can be received or sent without waiting. It reports connections in its threads; the reports
are passed on to the loop.
"""

import asyncio
import contextlib
import select
import time
from collections.abc import Callable

import pynng

from mainstem.core.errors import InvalidSetting
from mainstem.heads.addresses import Address
from mainstem.heads.transport.messages import pass_on
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

MESSAGES_PER_TURN = 256
Admit = Callable[[str], bool]
"""Tells whether a peer with this address may connect; called in a thread of nng."""


class NngSocket:
    """One nng socket, to send and receive messages; never blocks."""

    def __init__(
        self,
        found: "pynng.Socket",
        traffic: Traffic,
        receive: Callable[[list[bytes]], None] | None = None,
        *,
        admit: Admit | None = None,
        per_turn: int = MESSAGES_PER_TURN,
        tells_sender: bool = False,
    ) -> None:
        """Watch the socket; ``receive`` gets its messages, at most ``per_turn`` in one call."""
        self.raw = found
        self.peers: dict[int, tuple[str, float]] = {}
        """Address of each connection and when it began (``time.monotonic``), by its number."""
        self.sender = 0
        """The number of the connection of the last message, if ``tells_sender``."""
        self.sends = 0
        """How many messages were sent."""
        self.sends_before: dict[int, int] = {}
        """How many messages were sent before a connection began, by its number."""
        self._traffic, self._receive, self._per_turn = traffic, receive, per_turn
        self._admit, self._tells_sender = admit, tells_sender
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._waiting: Callable[[], None] | None = None
        self._send_fd: int | None = None
        self._sendable: select.poll | None = None
        found.add_pre_pipe_connect_cb(self._connects)
        found.add_post_pipe_remove_cb(self._disconnects)
        self._receive_fd = found.recv_fd if receive is not None else None
        self.resume()

    def listen(self, address: Address, setting: str) -> Address:
        """Listen on an address; return it with the port. Raises InvalidSetting if it is taken.

        ``setting``: the name of the setting with the address.
        """
        # The kernel probes idle peers, as often as the system says (tcp_keepalive_time).
        self.raw.tcp_keepalive = True
        try:
            found = self.raw.listen(f"tcp://{address}")
        except pynng.NNGException as error:
            raise InvalidSetting(f"{setting}: cannot listen on {address}: {error}") from None
        host, _, port = str(found.url).removeprefix("tcp://").rpartition(":")
        return Address(host.strip("[]"), int(port))

    def send(self, data: bytes) -> bool:
        """Send a message; return False if it was dropped, because no peer has room."""
        if self._is_closed:
            return False
        try:
            self.raw.send(data, block=False)
        except (pynng.TryAgain, pynng.BadState):
            return False
        self._traffic.bytes_out += len(data)
        self.sends += 1
        return True

    def transmitted(self) -> dict[int, int]:
        """Return how many messages TCP has taken, by the number of each connection."""
        found = dict[int, int]()
        root = pynng.ffi.new("nng_stat **")
        if pynng.lib.nng_stats_get(root) != 0:
            return found
        each = pynng.lib.nng_stat_child(root[0])
        while each:
            # The statistics are of all sockets of the process.
            if (number := int(pynng.lib.nng_stat_value(each))) in self.peers:
                sent = pynng.lib.nng_stat_find(each, b"tx_msgs")
                found[number] = int(pynng.lib.nng_stat_value(sent))
            each = pynng.lib.nng_stat_next(each)
        pynng.lib.nng_stats_free(root[0])
        return found

    @property
    def is_closed(self) -> bool:
        """Whether the socket is closed."""
        return self._is_closed

    @property
    def is_writable(self) -> bool:
        """Whether a peer is connected; only ``send`` tells whether it has room."""
        return bool(self.peers)

    def takes(self) -> bool:
        """Tell whether a message would be taken now."""
        if self._sendable is None:
            self._sendable = select.poll()
            self._sendable.register(self.raw.send_fd, select.POLLIN)
        return not self._is_closed and bool(self._sendable.poll(0))

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call ``call`` once when the socket can take a message."""
        self._waiting = call
        if self._send_fd is None:
            self._send_fd = self.raw.send_fd
            self._loop.add_reader(self._send_fd, self._has_room)

    def pause(self) -> None:
        """Stop receiving, so that the peers' queues fill up."""
        if self._receive_fd is not None:
            self._loop.remove_reader(self._receive_fd)

    def resume(self) -> None:
        """Receive again, or for the first time."""
        if self._receive_fd is not None and not self._is_closed:
            self._loop.add_reader(self._receive_fd, self._turn)

    def close(self) -> None:
        """Close the socket and its connections."""
        if self._is_closed:
            return
        self.pause()
        self._is_closed = True
        if self._send_fd is not None:
            self._loop.remove_reader(self._send_fd)
        self.raw.close()
        self._traffic.closed += len(self.peers)
        self.peers.clear()
        self.sends_before.clear()

    def _has_room(self) -> None:
        if self._send_fd is not None:
            self._loop.remove_reader(self._send_fd)
            self._send_fd = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    def _turn(self) -> None:
        found = list[bytes]()
        with contextlib.suppress(pynng.TryAgain):
            while len(found) < self._per_turn:
                found.append(self._next())
        self._traffic.bytes_in += sum(map(len, found))
        if not found or self._receive is None:
            return
        pass_on(found, self._receive, self._traffic)

    def _next(self) -> bytes:
        if self._tells_sender:
            message = self.raw.recv_msg(block=False)
            self.sender = message.pipe.id if message.pipe else 0
            return bytes(message.bytes)
        try:
            return bytes(self.raw.recv(block=False))
        except RuntimeError:
            # It has received an empty message, which pynng cannot unpack.
            return b""

    # In threads of nng

    def _connects(self, pipe: "pynng.Pipe") -> None:
        peer = str(pipe.remote_address)
        if self._admit is not None and not self._admit(peer):
            self._on_loop(self._refused)
            pipe.close()
            return
        self._on_loop(lambda: self._connected(pipe.id, peer))

    def _disconnects(self, pipe: "pynng.Pipe") -> None:
        number = pipe.id
        self._on_loop(lambda: self._disconnected(number))

    def _on_loop(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):
            # Raises RuntimeError if the loop is closed.
            self._loop.call_soon_threadsafe(call)

    # In the loop

    def _connected(self, number: int, peer: str) -> None:
        self._traffic.accepted += 1
        if self._is_closed:
            self._traffic.closed += 1
        else:
            self.peers[number] = peer, time.monotonic()
            self.sends_before[number] = self.sends

    def _disconnected(self, number: int) -> None:
        self.sends_before.pop(number, None)
        if self.peers.pop(number, None):
            self._traffic.closed += 1

    def _refused(self) -> None:
        self._traffic.refused += 1


def connections(sockets: list[NngSocket]) -> list[ConnectionInfo]:
    """Return the connected peers of these sockets; may be called from any thread."""
    now = time.monotonic()
    return [
        ConnectionInfo(peer, now - since)
        for each in sockets
        for peer, since in each.peers.copy().values()
    ]
