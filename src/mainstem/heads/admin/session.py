"""One HTTP connection: a request, its answer, and the end.

How this works: h11 parses and writes HTTP; it gets small pieces of input, so that it refuses a head
of more than ``MAX_HEAD_BYTES`` before it has buffered much more. One request per connection
excludes pipelining, keep-alive and request smuggling. Only requests whose Host header names this
machine are answered: a web page can make any domain resolve to 127.0.0.1 (DNS rebinding), but
cannot change the Host header. Nor can a page of another origin set the header ``X-Requested-By`` or
the content type JSON without the server's consent (CORS), which it never gives; so a POST must have
both.
"""

from http import HTTPStatus

import h11
import msgspec

from mainstem.core.errors import Failure
from mainstem.heads.conversation import ProtocolError
from mainstem.heads.web.problem import PROBLEM_TYPE, problem

MAX_HEAD_BYTES = 16 * 1024
PIECE_BYTES = 4096
MAX_BODY_BYTES = 64 * 1024
METHODS = (b"GET", b"HEAD", b"POST")
TEXT = "text/plain; charset=utf-8"
JSON_TYPE = "application/json"
_HEALTH = frozenset((b"/livez", b"/readyz"))
_JSON = JSON_TYPE.encode()
_LOCAL = frozenset((b"127.0.0.1", b"localhost", b"[::1]"))


class HttpAnswer(msgspec.Struct, frozen=True):
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = TEXT
    allow: str = "GET, HEAD, POST"
    """For status 405 (method not allowed): the methods that the resource supports."""


class HttpRequest(msgspec.Struct, frozen=True):
    """A complete HTTP request."""

    method: str
    target: str
    """Path and query of the request."""
    authorization: bytes = b""
    body: bytes = b""

    @property
    def posts(self) -> bool:
        """Whether the method is POST, which may change something."""
        return self.method == "POST"

    @property
    def path(self) -> str:
        """The path: the target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The query string of the target."""
        return self.target.partition("?")[2]


class HttpSession:
    """HTTP state of one connection: parses its request, and encodes the answer."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._request = HttpRequest("GET", "")
        self._body = b""

    def receive(self, data: bytes) -> HttpRequest | None:
        """Parse more bytes; return the request once it is complete. Raises ProtocolError."""
        try:
            self._http.receive_data(data)
            return self._next()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            reason = f"{error}; this port speaks HTTP/1.1 in plain text"
            raise self._refusal(status, reason) from None

    def _next(self) -> HttpRequest | None:
        while True:
            event = self._http.next_event()
            match event:
                case h11.Request():
                    self._request = HttpRequest(
                        event.method.decode("ascii"),
                        event.target.decode("ascii"),
                        dict(event.headers).get(b"authorization", b""),
                    )
                    self._check(event)
                    if not self._request.posts:
                        return self._request
                case h11.Data():
                    self._body += event.data
                case h11.EndOfMessage():
                    return msgspec.structs.replace(self._request, body=self._body)
                case _:
                    return None

    def send(self, answer: HttpAnswer) -> bytes:
        """Encode the answer; the connection ends after it."""
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        if answer.status == 405:
            headers.append(("Allow", answer.allow))
        if answer.status == 401:
            headers.append(("WWW-Authenticate", 'Basic realm="mainstem"'))
        status = HTTPStatus(answer.status)
        response = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        sent = self._http.send(response) or b""
        if self._request.method != "HEAD":
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
            raise self._refusal(405, "only GET, HEAD and POST are answered here")
        # Load balancers probe with HTTP/1.0, without a Host header: allow that for health only.
        if b"host" not in headers and request.target.partition(b"?")[0] not in _HEALTH:
            reason = "the Host header is missing; only /livez and /readyz need none"
            raise self._refusal(400, reason)
        if self._request.posts:
            self._check_post(headers)
        elif b"transfer-encoding" in headers or length not in (None, b"0"):
            raise self._refusal(413, "only a POST has a body here")

    def _check_post(self, headers: dict[bytes, bytes]) -> None:
        """Raise for a POST that a page of another origin could send, or that has no body length."""
        origin = headers.get(b"origin")
        if origin not in (None, b"http://" + headers.get(b"host", b"")):
            raise self._refusal(403, "web pages of other origins may change nothing here")
        if not headers.get(b"x-requested-by"):
            reason = "a POST needs the header X-Requested-By, with any value"
            raise self._refusal(403, f"{reason}: web pages of other origins cannot send it")
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _JSON:
            raise self._refusal(415, "the body must be JSON, with Content-Type: application/json")
        if b"content-length" not in headers:
            raise self._refusal(411, "a POST needs a Content-Length")
        if len(headers[b"content-length"]) > 9 or (
            int(headers[b"content-length"]) > MAX_BODY_BYTES
        ):
            raise self._refusal(413, f"a body may have up to {MAX_BODY_BYTES} bytes")

    def _refusal(self, status: int, reason: str) -> ProtocolError:
        if self._request.posts:
            failure = Failure.DENIED if status == 403 else None
            answer = HttpAnswer(status, problem(status, reason, failure), PROBLEM_TYPE)
        else:
            answer = HttpAnswer(status, reason.encode("ascii", "replace") + b"\n")
        return ProtocolError(f"HTTP {status}: {reason}", self.send(answer))


def _name(host: bytes) -> bytes:
    """Return the host name in a Host header.

    The port is removed, because it differs behind a tunnel.
    """
    name, colon, port = host.rpartition(b":")
    return (name if colon and port.isdigit() else host).lower()
