"""One connection of a peer that speaks HTTP/1.1: uvicorn's protocol, with limits.

How this works: uvicorn parses requests (llhttp refuses those that could be smuggled), runs the app
in a task, and upgrades to WebSockets. It has no limits of its own, so received data is fed to it in
small pieces, and the callbacks of its parser count bytes. A refused request is answered with a
problem, and ends the connection.

While the server waits for the peer (to send a request, or to read an answer), the connection is in
``Shared.waiting``; if there are too many connections, one of these is closed.

A connection ends by half-closing: closing with unread data would reset it, and the peer could lose
its answer. Data that the peer still sends is dropped, until it closes too or ``LINGER_S`` is over.
"""

import asyncio
import logging
import sys
from enum import Enum, auto

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from mainstem.auth import Auth
from mainstem.core.errors import MainstemError
from mainstem.heads.addresses import peer_of
from mainstem.heads.transport.timer import Timer, now_ms
from mainstem.heads.transport.traffic import Traffic
from mainstem.heads.web.limits import WebLimits
from mainstem.heads.web.login import PEER
from mainstem.heads.web.origin import Origins
from mainstem.heads.web.problem import NO_SNIFFING, PROBLEM_TYPE, Refused, problem_of
from mainstem.heads.web.wire import Wire

_logger = logging.getLogger("mainstem.heads")
_SILENT = logging.Logger("uvicorn", logging.CRITICAL + 1)
"""The logger for uvicorn, whose messages are dropped: this module logs, with the peer's address."""

PIECE_BYTES = 4096
"""How many bytes are parsed at a time, so that an exceeded limit is noticed before much more is
buffered.
"""
LINGER_S = 2.0
"""How long a peer may take to read its last answer, and to close its side."""
HALF_CLOSED_S = 5.0
"""How long a request is carried out after its peer has closed its side: the peer may still read, or
have disconnected.
"""
_OVERHEAD = 8
"""How many times larger than its content a chunked body may be, with the sizes of its chunks."""
_VERSIONS = ("1.1", "1.0")
_OFFER = frozenset((b"connection", b"upgrade", b"http2-settings"))
"""The headers with which a client offers another protocol."""


class Part(Enum):
    """Which part of a request the peer sends next."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """Nothing, or the next request: the connection is kept alive for that."""


class Shared:
    """The state that all connections of one head share."""

    def __init__(
        self, config: Config, limits: WebLimits, origins: Origins, auth: Auth, traffic: Traffic
    ) -> None:
        self.config, self.limits, self.origins = config, limits, origins
        self.auth, self.traffic = auth, traffic
        self.state = ServerState()
        self.open: set[HttpConnection] = set()
        self.waiting: dict[HttpConnection, None] = {}
        """Connections that wait for their peer, the oldest first."""
        self.draining = False


class HttpConnection(HttpToolsProtocol):
    """One connection, from its first byte to its end."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.config, shared.state, {})
        self.logger, self.access_log = _SILENT, False
        self.peer = "?"
        self.since_ms = now_ms()
        self._shared, self._limits = shared, shared.limits
        self._real: asyncio.Transport | None = None
        self._socket: asyncio.Protocol | None = None
        """The WebSocket protocol to which the connection was upgraded, if it was."""
        self._rest = b""
        """Data behind requests that are not answered yet."""
        self._declined: tuple[bytes, int] | None = None
        """A request's head without its offer of another protocol, and how many bytes of the piece
        it took.
        """
        self._parsing = False
        self._part = Part.HEAD
        self._part_ms = self.since_ms
        """When the peer began to send this part (monotonic ms)."""
        self._head_bytes = self._body_bytes = self._raw_bytes = 0
        self._body_left: int | None = None
        """How many bytes of a body with a Content-Length are missing."""
        self._ending_ms: int | None = None
        self._half_closed_ms: int | None = None
        self._stalled_ms: int | None = None
        self._timer = Timer(self, self._too_late)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        self._real = transport
        self.peer = peer_of(transport)
        tls = transport.get_extra_info("sslcontext") is not None
        self.app_state[PEER] = self._shared.auth.peer(self.peer, tls=tls)
        self._shared.open.add(self)
        self._wire = Wire(transport, self, self._shared.traffic)
        super().connection_made(self._wire)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the app that the peer has disconnected, and release everything."""
        self._timer.cancel()
        self._shared.open.discard(self)
        self._shared.waiting.pop(self, None)
        self._shared.traffic.closed += 1
        self.pipeline.clear()
        self._rest = b""
        if self._socket is not None:
            self._socket.connection_lost(exc)
            self._unset_keepalive_if_required()
        else:
            # With an error, uvicorn's method would not cancel its timer.
            super().connection_lost(None)

    def data_received(self, data: bytes) -> None:
        """Parse requests; keep data that follows a request which is not answered yet."""
        self._shared.traffic.bytes_in += len(data)
        if self._socket is not None:
            if not self.is_ending:
                self._socket.data_received(data)
        elif self._rest:
            self._rest += data
        else:
            self._feed(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer earlier requests before closing, as the peer may have closed only its own side."""
        if self._socket is not None or self.is_ending or not self._busy or self._is_tls:
            return False
        self._half_closed_ms = now_ms()
        self._timer.ask()
        return True

    def pause_writing(self) -> None:
        """Stop the app's sends until the peer reads."""
        self._stalled_ms = now_ms()
        if isinstance(self._socket, asyncio.Protocol):
            self._socket.pause_writing()
        else:
            super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Let the app send again."""
        self._stalled_ms = None
        if isinstance(self._socket, asyncio.Protocol):
            self._socket.resume_writing()
        else:
            super().resume_writing()
        self._look()

    # Called by the server.

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is sent, and data from the peer is dropped."""
        return self._ending_ms is not None

    def give_way(self) -> None:
        """Close at once: there are too many connections, and this one waits for its peer."""
        self._shared.waiting.pop(self, None)
        self._tell("others need the connection, and its peer keeps it waiting")
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._real is not None:
            self._real.abort()

    def shutdown(self) -> None:
        """Answer earlier requests, then end the connection, because the server stops."""
        if self._socket is not None:
            self._socket.shutdown()  # type: ignore[attr-defined]  # both of uvicorn's have it
        elif not self._busy:
            self.end()
        elif self.pipeline:
            self.pipeline[0][0].keep_alive = False
        else:
            self.cycle.keep_alive = False

    # Called by uvicorn.

    def end(self) -> None:
        """End the connection once everything has been sent; drop data that the peer still sends."""
        if self.is_ending or self._real is None or self._real.is_closing():
            return
        self._wire.flush()
        self._ending_ms = now_ms()
        self._rest = b""
        self._unset_keepalive_if_required()
        try:
            if self._is_tls or self._half_closed_ms is not None or not self._real.can_write_eof():
                self._real.close()
            else:
                self._real.write_eof()
                self._real.resume_reading()
        except OSError:
            # The peer has already disconnected.
            self.abort()
        self._look()

    def upgrade(self, protocol: asyncio.Protocol) -> None:
        """Pass all further data to a WebSocket protocol."""
        protocol.logger = _SILENT  # type: ignore[attr-defined]  # it has one
        self._socket = protocol
        self._part = Part.NOTHING
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request because of an error of the parser, or of one of its callbacks."""
        error = sys.exception()
        while error is not None and not isinstance(error, Refused | MainstemError):
            msg = str(error) or msg
            error = error.__context__
        self._refuse(error or Refused(400, f"this is not valid HTTP/1.1: {msg}"))

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore an offer to upgrade to another protocol, such as HTTP/2, and answer in HTTP/1.1.

        The parser takes the data behind the head for the other protocol, and drops it; so a new
        parser gets the head without the offer, and then the body.
        """
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade)
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self._version())]
        for name, value in self.headers:
            if name == b"connection" and b"close" in value.lower():
                lines.append(b"connection: close")
            elif name not in _OFFER:
                lines.append(b"%s: %s" % (name, value))
        self._declined = b"\r\n".join((*lines, b"", b"")), upgrade.args[0]
        self.parser = httptools.HttpRequestParser(self)

    def _version(self) -> bytes:
        return self.parser.get_http_version().encode()

    def _is_offer(self) -> bool:
        return self.parser.should_upgrade() and not self._should_upgrade()

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._begin(Part.HEAD)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the request's target."""
        super().on_url(url)
        if len(self.url) > self._limits.max_url_bytes:
            raise Refused(414, f"a URL may have up to {self._limits.max_url_bytes} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; drop trailers, as the head was checked without them."""
        if self._part is Part.HEAD:
            super().on_header(name, value)
            if len(self.headers) > self._limits.max_headers:
                raise Refused(431, f"a request may have up to {self._limits.max_headers} headers")

    def on_headers_complete(self) -> None:
        """Check the head before the body is read or the app is called."""
        method = self.parser.get_method().decode("ascii", "replace")
        if method == "CONNECT" or (not self.url.startswith(b"/") and self.url != b"*"):
            raise Refused(400, "the target must be a path, without scheme and host")
        if self.parser.get_http_version() not in _VERSIONS:
            raise Refused(505, "this server speaks HTTP/1.0 and HTTP/1.1")
        self._shared.origins.check(method, self.url.decode("latin-1"), self.headers)
        self._body_left = self._announced()
        if not self._is_offer():
            self._begin(Part.BODY)
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._body_bytes += len(body)
        if self._body_left is not None:
            self._body_left -= len(body)
        if self._body_bytes > self._limits.max_body_bytes:
            raise self._body_too_large()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the answer to this request, or for the next request."""
        if not self._is_offer():
            self._begin(Part.NOTHING)
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Parse data that the peer has sent during the answer."""
        super().on_response_complete()
        if self._half_closed_ms is not None and not self._busy and not self._rest:
            self.end()
        elif self._rest and not self.is_ending:
            self.loop.call_soon(self._feed_rest)
        self._look()

    # Limits.

    def deadline(self) -> int | None:
        """Return when the peer has exceeded a time limit (monotonic ms), None if none applies."""
        limits, found = self._limits, []
        if self._ending_ms is not None:
            return self._ending_ms + int(LINGER_S * 1000)
        if self._half_closed_ms is not None:
            found.append(self._half_closed_ms + int(HALF_CLOSED_S * 1000))
        if self._stalled_ms is not None:
            found.append(self._stalled_ms + int(limits.stalled_s * 1000))
        if self._part is Part.HEAD:
            found.append(self._part_ms + int(limits.head_s * 1000))
        elif self._part is Part.BODY and not self.flow.read_paused:
            found.append(self._part_ms + int(limits.body_s * 1000))
        return min(found, default=None)

    def _too_late(self, now: int) -> None:
        if self.is_ending:
            self.abort()
        elif self._half_closed_ms is not None:
            # The peer has disconnected, or the answer takes too long for it.
            self.abort()
        elif self._stalled_ms is not None:
            self._tell("its peer does not read its answer")
            self.abort()
        elif self._part is Part.HEAD and not self._head_bytes:
            self._tell(f"no whole request came within {self._limits.head_s:g} s")
            self.end()
        else:
            part_s = self._limits.head_s if self._part is Part.HEAD else self._limits.body_s
            self._refuse(Refused(408, f"no whole request came within {part_s:g} s"))

    @property
    def _is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered, or the connection is a WebSocket."""
        unanswered = self.cycle is not None and not self.cycle.response_complete
        return self._socket is not None or unanswered or bool(self.pipeline)

    def _begin(self, part: Part) -> None:
        if part is Part.HEAD:
            self._head_bytes = 0
        elif part is Part.BODY:
            self._body_bytes = self._raw_bytes = 0
        self._part, self._part_ms = part, now_ms()
        # The rest of the piece that is being parsed may complete this part.
        if not self._parsing:
            self._look()

    def _look(self) -> None:
        """Update the list of connections that wait for their peer, and the timer."""
        waits = (
            self.is_ending
            or self._stalled_ms is not None
            or self._part is not Part.NOTHING
            or not self._busy
        )
        if not waits:
            self._shared.waiting.pop(self, None)
        elif self in self._shared.open:
            self._shared.waiting.setdefault(self)
        if self in self._shared.open:
            self._timer.ask()

    def _feed(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self.is_ending and self._socket is None:
            if self.pipeline:
                self._rest = data[at:]
                return
            if self._shared.draining and self._part is not Part.BODY:
                return
            size = PIECE_BYTES if self._part is not Part.BODY else self._body_left or PIECE_BYTES
            piece = data[at : at + size]
            at += len(piece)
            self._parsing = True
            super().data_received(piece)
            self._parsing = False
            self._look()
            if self._declined is not None:
                head, parsed = self._declined
                data, at, self._declined = head + piece[parsed:] + data[at:], 0, None
            self._count(len(piece))

    def _feed_rest(self) -> None:
        rest, self._rest = self._rest, b""
        self._feed(rest)

    def _count(self, size: int) -> None:
        """Count parsed bytes; refuse a head that is too large, or chunks with too much overhead."""
        if self.is_ending or self._socket is not None:
            return
        limit = self._limits.max_head_bytes
        if self._part is Part.HEAD:
            self._head_bytes += size
            if self._head_bytes > limit:
                self._refuse(Refused(431, f"the head of a request may have up to {limit} bytes"))
        elif self._part is Part.BODY and self._body_left is None:
            self._raw_bytes += size
            if self._raw_bytes > limit + _OVERHEAD * self._body_bytes:
                self._refuse(Refused(400, "there is more around the chunks of a body than in them"))

    def _announced(self) -> int | None:
        """Return the length of the body, None if it is chunked."""
        length, chunked = 0, False
        for name, value in self.headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                chunked = True
                if value.strip().lower() != b"chunked":
                    raise Refused(501, "the Transfer-Encoding must be chunked, or none")
                if self.parser.get_http_version() == "1.0":
                    # [RFC 9112, 6.1]: a proxy in between may have seen another end of the body.
                    raise Refused(400, "HTTP/1.0 has no Transfer-Encoding")
        if length > self._limits.max_body_bytes:
            raise self._body_too_large()
        return None if chunked else length

    def _body_too_large(self) -> Refused:
        return Refused(413, f"a body may have up to {self._limits.max_body_bytes} bytes here")

    # The end.

    def _refuse(self, error: Refused | MainstemError) -> None:
        status, body, headers = problem_of(error)
        self._tell(f"HTTP {status}: {error}")
        cycle = self.cycle
        unanswered = cycle is not None and not cycle.response_complete
        if unanswered:
            # The app learns that nothing more comes.
            cycle.disconnected = True
            cycle.message_event.set()
        # The peer must not mistake a refusal for the answer to an earlier request.
        is_first = not unanswered or (cycle.scope is self.scope and not cycle.response_started)
        if is_first and not self.pipeline:
            said = [
                (b"content-type", PROBLEM_TYPE.encode()),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
                NO_SNIFFING,
                *headers,
            ]
            lines = b"".join(b"%s: %s\r\n" % each for each in said)
            is_head = self.scope is not None and self.scope.get("method") == "HEAD"
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + (b"" if is_head else body))
        self.pipeline.clear()
        self.end()

    def _tell(self, reason: str) -> None:
        _logger.warning("closing %s: %s", self.peer, reason)
        self._shared.traffic.cut_off += 1
