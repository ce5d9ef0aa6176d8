"""Receives a MoldUDP64 session by multicast, and requests lost messages from the server.

How this works: the same packets may arrive from two groups (A and B); the first copy counts.
Requests and their answers go through a socket of their own, connected to the server, so that the
kernel drops packets from others there. All sockets are read in ``poll``: packets that are not read
in time are dropped by the kernel, and requested again.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mainstem.client.feeds.polled import PolledFeed
from mainstem.client.feeds.reassembly import Message, Patience, Reassembly
from mainstem.core.errors import InvalidSetting
from mainstem.heads.addresses import Address, multicast_group, parse_address
from mainstem.heads.moldudp64.codec import (
    BadPacket,
    Packet,
    Request,
    decode_packet,
    encode_request,
)
from mainstem.heads.transport.datagrams import datagram_socket

_PACKETS_AT_ONCE = 256
_MAX_DATAGRAM = 65_536
_PATIENCE = Patience()


class FeedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what a receiver has got and requested."""

    session: str
    next_sequence: int | None
    """The sequence number of the next message."""
    delivered: int
    packets: dict[str, int]
    """Packets by where they came from: each group, and ``requests`` for answers."""
    duplicates: int
    """Messages that had arrived before: from the other group, or from an answer."""
    reordered: int
    """Messages that arrived after later ones, without a request."""
    requests: int
    recovered: int
    """Messages that came as answers to requests."""
    lost: int
    """Messages that were given up by ``skip``."""
    malformed: int
    other_sessions: int
    """Packets of other sessions, which are ignored."""


class MulticastFeed(PolledFeed[Message]):
    """A receiver of a MoldUDP64 session; for one thread at a time."""

    def __init__(
        self,
        groups: str | Sequence[str],
        *,
        requests: str | None = None,
        session: str = "",
        start: int | None = 1,
        interface: str = "127.0.0.1",
        patience: Patience = _PATIENCE,
        receive_buffer_bytes: int = 8 * 1024 * 1024,
        on_request: Callable[[int, int], object] | None = None,
    ) -> None:
        """Join the multicast groups.

        ``requests`` is the address to send requests to; without it a lost message raises
        MessagesLost. ``session`` is the session's name, by default that of the first packet.
        ``start`` is the first sequence number to return; None for the next one that is sent.
        ``on_request`` is called with the sequence number and the count of each request.
        """
        self._reassembly = Reassembly(start, patience)
        self._reassembly.session = self._session = session
        self._on_request = on_request or (lambda _sequence, _count: None)
        self._packets: dict[str, int] = {}
        self._delivered = self._asked = self._malformed = self._others = 0
        self._names: dict[int, tuple[socket.socket, str]] = {}
        self._poll = select.poll()
        self._requests: socket.socket | None = None
        try:
            for each in [groups] if isinstance(groups, str) else groups:
                self._add(_joined(multicast_group(each), interface, receive_buffer_bytes), each)
            if requests is not None:
                self._requests = _connected(_address(requests), receive_buffer_bytes)
                self._add(self._requests, "requests")
        except BaseException:
            self.close()
            raise

    @property
    def is_ended(self) -> bool:
        """Whether the session has ended, and all its messages were delivered."""
        return self._reassembly.is_complete and not self._reassembly.ready

    def poll(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None at the end of the session, or after ``timeout_s``.

        Raises MessagesLost if messages are missing and not answered in time; ``skip`` continues
        after them.
        """
        ready = self._reassembly.ready
        if not ready:
            self._receive_until(None if timeout_s is None else _now_ms() + timeout_s * 1000)
        if not ready:
            return None
        self._delivered += 1
        return ready.popleft()

    def end_at(self, last: int) -> None:
        """Treat ``last`` as the session's last message; it is requested if it does not come."""
        self._reassembly.announce(last + 1, _now_ms(), is_end=True)

    def skip(self) -> tuple[int, int] | None:
        """Continue after messages that were lost; return the first and last of their numbers.

        Returns None if none is missing.
        """
        return self._reassembly.skip()

    def report(self) -> FeedReport:
        """Return counts of what was received and requested so far."""
        it = self._reassembly
        return FeedReport(
            session=self._session,
            next_sequence=it.ready[0].sequence if it.ready else it.next,
            delivered=self._delivered,
            packets=dict(self._packets),
            duplicates=it.duplicates,
            reordered=it.reordered,
            requests=self._asked,
            recovered=it.recovered,
            lost=it.lost,
            malformed=self._malformed,
            other_sessions=self._others,
        )

    def close(self) -> None:
        """Leave the groups."""
        for each, _ in self._names.values():
            each.close()
        self._names.clear()

    def _add(self, found: socket.socket, name: str) -> None:
        self._names[found.fileno()] = found, name
        self._packets[name] = 0
        self._poll.register(found, select.POLLIN)

    def _receive_until(self, end_ms: float | None) -> None:
        """Receive until there is a message, the session has ended, or the time is up."""
        it = self._reassembly
        while not it.ready and not it.is_complete:
            now_ms = _now_ms()
            if end_ms is not None and now_ms >= end_ms:
                return
            self._request(now_ms)
            waits = [
                each for each in (it.wait_ms(now_ms), _left(end_ms, now_ms)) if each is not None
            ]
            # Rounded up, as poll takes whole milliseconds.
            for number, _ in self._poll.poll(int(min(waits)) + 1 if waits else None):
                self._read(*self._names[number])

    def _request(self, now_ms: float) -> None:
        for ask in self._reassembly.due(now_ms):
            if self._requests is None:
                continue
            self._on_request(ask.sequence, ask.count)
            self._asked += 1
            try:
                self._requests.send(encode_request(Request(self._session, ask.sequence, ask.count)))
            except OSError:
                # The server is not reachable, or the socket is full: the request is repeated later.
                continue

    def _read(self, found: socket.socket, name: str) -> None:
        for _ in range(_PACKETS_AT_ONCE):
            try:
                data = found.recv(_MAX_DATAGRAM)
            except OSError:
                # Nothing more has arrived; or the server is not reachable, as an earlier request
                # found.
                return
            self._packets[name] += 1
            try:
                packet = decode_packet(data)
            except BadPacket:
                self._malformed += 1
                continue
            self._take(packet, requested=found is self._requests)

    def _take(self, packet: Packet, *, requested: bool) -> None:
        if packet.session != self._session:
            if self._session:
                self._others += 1
                return
            self._session = self._reassembly.session = packet.session
        now_ms = _now_ms()
        if packet.messages:
            self._reassembly.add(packet.sequence, packet.messages, now_ms, requested=requested)
        else:
            self._reassembly.announce(packet.sequence, now_ms, is_end=packet.is_end)


def replayed(
    requests: str, session: str, first: int, last: int, *, patience: Patience = _PATIENCE
) -> Iterator[Message]:
    """Yield the messages ``first`` to ``last`` of a session, requested from its server.

    Raises MessagesLost if the server does not answer.
    """
    if not 1 <= first <= last:
        raise InvalidSetting(f"there are no messages from {first} to {last}")
    with MulticastFeed(
        (), requests=requests, session=session, start=first, patience=patience
    ) as feed:
        feed.end_at(last)
        yield from feed


def _now_ms() -> float:
    return time.monotonic() * 1000


def _left(end_ms: float | None, now_ms: float) -> float | None:
    return None if end_ms is None else max(0.0, end_ms - now_ms)


def _address(text: str) -> Address:
    found = parse_address(text, "address")
    if found is None:
        raise InvalidSetting(f"{text!r:.60} is not HOST:PORT")
    return found


def _joined(group: Address, interface: str, buffer_bytes: int) -> socket.socket:
    def join(found: socket.socket) -> None:
        # Allow several receivers on one machine.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bind to the group's address: packets of other groups on this port are not received.
        found.bind(group.pair)
        joined = struct.pack("4s4s", socket.inet_aton(group.host), socket.inet_aton(interface))
        found.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)

    return datagram_socket(join, buffer_bytes)


def _connected(server: Address, buffer_bytes: int) -> socket.socket:
    return datagram_socket(lambda it: it.connect(server.pair), buffer_bytes)
