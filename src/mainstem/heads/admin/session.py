"""One HTTP connection: a request without a body, its answer, and the end.

How this works: h11 parses and writes HTTP; it is fed little at a time, so that it refuses a head of
more than ``MAX_HEAD_BYTES`` before it has buffered much more. One request per connection excludes
pipelining, keep-alive and request smuggling. Only requests whose Host header names this machine are
answered: a web page can make any domain resolve to 127.0.0.1 (DNS rebinding), but cannot change
the Host header.
"""

from http import HTTPStatus

import h11
import msgspec

from mainstem.heads.conversation import ProtocolError

MAX_HEAD_BYTES = 16 * 1024
PIECE_BYTES = 4096
METHODS = (b"GET", b"HEAD")
TEXT = "text/plain; charset=utf-8"
_HEALTH = frozenset((b"/livez", b"/readyz"))
_LOCAL = frozenset((b"127.0.0.1", b"localhost", b"[::1]"))


class HttpAnswer(msgspec.Struct, frozen=True):
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = TEXT


class HttpSession:
    """The HTTP state of one connection: bytes in, path and query out; answer in, bytes out."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._has_body = True
        self.authorization = b""
        """The Authorization header."""

    def receive(self, data: bytes) -> str | None:
        """Return path and query once the request is complete; raises ProtocolError."""
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            reason = f"{error}; this port speaks HTTP/1.1 in plain text"
            raise self._refusal(status, reason) from None
        if not isinstance(event, h11.Request):
            return None
        self._has_body = event.method != b"HEAD"
        self._check(event)
        self.authorization = dict(event.headers).get(b"authorization", b"")
        return event.target.decode("ascii")

    def send(self, answer: HttpAnswer) -> bytes:
        """Encode the answer, which ends the connection."""
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        if answer.status == 405:
            headers.append(("Allow", "GET, HEAD"))
        if answer.status == 401:
            headers.append(("WWW-Authenticate", 'Basic realm="mainstem"'))
        status = HTTPStatus(answer.status)
        response = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        sent = self._http.send(response) or b""
        if self._has_body:
            sent += self._http.send(h11.Data(data=answer.body)) or b""
        return sent + (self._http.send(h11.EndOfMessage()) or b"")

    def _check(self, request: h11.Request) -> None:
        headers: dict[bytes, bytes] = dict(request.headers)
        length = headers.get(b"content-length")
        if b"transfer-encoding" in headers and length is not None:
            raise self._refusal(400, "Content-Length together with Transfer-Encoding")
        if b"host" in headers and _name(headers[b"host"]) not in _LOCAL:
            reason = "the Host header does not name this machine: use 127.0.0.1 or localhost"
            raise self._refusal(421, reason)
        if request.method not in METHODS:
            raise self._refusal(405, "only GET and HEAD are answered here")
        # Load balancers probe with HTTP/1.0, without a Host header: allow that for health only.
        if b"host" not in headers and request.target.partition(b"?")[0] not in _HEALTH:
            reason = "the Host header is missing; only /livez and /readyz need none"
            raise self._refusal(400, reason)
        if b"transfer-encoding" in headers or length not in (None, b"0"):
            raise self._refusal(413, "a request here has no body")

    def _refusal(self, status: int, reason: str) -> ProtocolError:
        answer = HttpAnswer(status, reason.encode("ascii", "replace") + b"\n")
        return ProtocolError(f"HTTP {status}: {reason}", self.send(answer))


def _name(host: bytes) -> bytes:
    """Return a Host header without its port, which differs behind a tunnel."""
    name, colon, port = host.rpartition(b":")
    return (name if colon and port.isdigit() else host).lower()
