"""Receives a topic through a server's ZeroMQ sockets: DEALER for requests, SUB for live events."""

from collections.abc import Callable, Iterator
from typing import Unpack

import msgspec
import zmq

from mainstem.client.feeds.following import FeedArguments, TopicFeed
from mainstem.core.errors import InvalidSetting, Unauthenticated
from mainstem.heads.brokerless.codec import (
    Answer,
    Published,
    Request,
    decode_answer,
    decode_event,
    decode_whole,
    encode_request,
)

_MESSAGES_AT_ONCE = 1_000
_UNSENT_REQUESTS = 10
_MAX_HELD = 100_000
_Socket = zmq.Socket[bytes]


class ZmqLogin(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in: user and password for PLAIN, keys for CURVE (Z85, as zmq.auth writes them)."""

    user: str = ""
    password: str = ""
    server_key: bytes = b""
    public_key: bytes = b""
    secret_key: bytes = b""

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"ZmqLogin(user={self.user!r})"


class ZmqFeed(TopicFeed):
    """A receiver of a topic over ZeroMQ; for one thread at a time."""

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        login: ZmqLogin | None = None,
        **options: Unpack[FeedArguments],
    ) -> None:
        """Connect to the server's socket for replays, such as ``tcp://127.0.0.1:5556``.

        ``options``: start, patience, timeout_s, as ``TopicFeed`` has them.
        """
        patience = options.get("patience")
        held = patience.max_held if patience else _MAX_HELD
        link = _ZmqLink(address, login or ZmqLogin(), held)
        super().__init__(link, topic, **options)


class _ZmqLink:
    """The connections to a server, and a socket that reports refused logins."""

    def __init__(self, address: str, login: ZmqLogin, max_held: int) -> None:
        if not address.startswith("tcp://"):
            raise InvalidSetting(
                f"{address!r:.60}: ZmqFeed needs the address of the server's socket for replays, "
                "such as tcp://127.0.0.1:5556; pgm:// and epgm:// are not supported, use "
                "MulticastFeed"
            )
        self.address, self._login = address, login
        self._context = zmq.Context[_Socket]()
        self._log = self._open(zmq.DEALER)
        # Do not queue requests while the server is not reachable; they are repeated anyway.
        self._log.setsockopt(zmq.IMMEDIATE, 1)
        self._log.setsockopt(zmq.SNDHWM, _UNSENT_REQUESTS)
        self._refused = self._log.get_monitor_socket(zmq.Event.HANDSHAKE_FAILED_AUTH)
        self._live = self._open(zmq.SUB)
        self._live.setsockopt(zmq.RCVHWM, max_held)
        self._poller = zmq.Poller()
        for each in (self._log, self._live, self._refused):
            self._poller.register(each, zmq.POLLIN)
        self._log.connect(address)

    def ask(self, request: Request) -> None:
        """Send a request; if the server is not reachable, it is lost and must be repeated."""
        try:
            self._log.send_multipart(encode_request(request), zmq.DONTWAIT)
        except zmq.Again:
            return

    def subscribe(self, topic: str, port: int) -> None:
        """Receive a topic's live events, from another port of the server's host."""
        host, _, _ = self.address.rpartition(":")
        self._live.setsockopt(zmq.SUBSCRIBE, f"{topic}/".encode())
        self._live.connect(f"{host}:{port}")

    def receive(self, wait_s: float) -> Iterator[Answer | Published]:
        """Yield what has arrived, after waiting at most ``wait_s``; raises Unauthenticated."""
        # Rounded up, as poll takes whole milliseconds.
        for found, _ in self._poller.poll(int(wait_s * 1000) + 1):
            if found is self._refused:
                self._refused.recv_multipart()
                raise Unauthenticated(self.address, "the server refuses the login")
            if found is self._log:
                yield from _messages(self._log, decode_answer)
            else:
                yield from _messages(self._live, _published)

    def close(self) -> None:
        """Close the connections."""
        if not self._log.closed:
            self._log.disable_monitor()
            for each in (self._refused, self._log, self._live):
                each.close(0)
            self._context.destroy(0)

    def _open(self, kind: int) -> _Socket:
        found, login = self._context.socket(kind), self._login
        found.setsockopt(zmq.LINGER, 0)
        found.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        if login.user:
            found.setsockopt(zmq.PLAIN_USERNAME, login.user.encode())
            found.setsockopt(zmq.PLAIN_PASSWORD, login.password.encode())
        if login.server_key:
            found.setsockopt(zmq.CURVE_SERVERKEY, login.server_key)
            found.setsockopt(zmq.CURVE_PUBLICKEY, login.public_key)
            found.setsockopt(zmq.CURVE_SECRETKEY, login.secret_key)
        return found


def _published(frames: list[bytes]) -> Published:
    # In one frame or several, as the server's setting zmq.publish_frames says.
    return decode_whole(frames[0]) if len(frames) == 1 else decode_event(frames)


def _messages(
    source: _Socket, decode: Callable[[list[bytes]], Answer | Published]
) -> Iterator[Answer | Published]:
    try:
        for _ in range(_MESSAGES_AT_ONCE):
            yield decode(source.recv_multipart(zmq.DONTWAIT))
    except zmq.Again:
        return
