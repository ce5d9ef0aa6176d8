"""Sends HTTP requests to endpoints, with aiohttp: here and in ``resolver.py`` are all sockets.

How this works: each request is a task of the event loop. It follows no redirect, uses no proxy and
keeps no cookie. The address is checked when the socket for it is made, after the name was resolved,
so the name cannot resolve to another address between the check and the connection.
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable

import aiohttp
import msgspec
from yarl import URL

from mainstem import __version__
from mainstem.heads.webhooks.addresses import AllowedAddresses
from mainstem.heads.webhooks.resolver import Resolver
from mainstem.heads.webhooks.schedule import Answer, retry_after_ms

MAX_ANSWER_BYTES = 64 * 1024
"""How much of a response is read; the connection is closed after a longer one."""
MAX_HEADER_BYTES = 8190
AGENT = f"mainstem/{__version__}"
_KEEP_S = 60.0

AddressInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]
]
Done = Callable[[Answer], None]


class AddressRefused(OSError):
    """The address of a connection is not allowed."""


class Request(msgspec.Struct, frozen=True):
    """One HTTP POST request to an endpoint."""

    url: URL
    headers: dict[str, str]
    body: bytes
    timeout_ms: int


class Client:
    """Sends requests and reports their answers; only the event loop may call it."""

    def __init__(self, allowed: AllowedAddresses, now_ms: Callable[[], int]) -> None:
        self._allowed = allowed
        self._now_ms = now_ms
        self._tasks: set[asyncio.Task[None]] = set()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                resolver=Resolver(),
                use_dns_cache=False,
                socket_factory=self._socket,
                keepalive_timeout=_KEEP_S,
                ssl=_tls(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": AGENT},
            skip_auto_headers=("Accept-Encoding",),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    def __len__(self) -> int:
        """Return the number of requests in flight."""
        return len(self._tasks)

    def send(self, request: Request, done: Done) -> None:
        """Send a request; ``done`` is called with the answer, unless the client is closed."""
        task = asyncio.create_task(self._send(request, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self, within_s: float, hurry: asyncio.Event) -> None:
        """Wait until all requests are answered, ``within_s`` is over, or ``hurry`` is set."""
        if not self._tasks:
            return
        hurried = asyncio.create_task(hurry.wait())
        answered = asyncio.create_task(asyncio.wait(set(self._tasks)))
        both = {hurried, answered}
        await asyncio.wait(both, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.wait(both)

    async def close(self) -> None:
        """Abort all requests, and close all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._session.close()

    async def _send(self, request: Request, done: Done) -> None:
        try:
            answer = await self._answer(request)
        except TimeoutError:
            answer = Answer(error=f"no answer within {request.timeout_ms / 1000:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            answer = Answer(error=_reason(error))
        done(answer)

    async def _answer(self, request: Request) -> Answer:
        async with self._session.post(
            request.url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=request.timeout_ms / 1000),
        ) as response:
            status = response.status
            delay_ms = None
            if "Retry-After" in response.headers:
                delay_ms = retry_after_ms(response.headers["Retry-After"], self._now_ms())
            left = MAX_ANSWER_BYTES
            while chunk := await response.content.read(left + 1):
                left -= len(chunk)
                if left < 0:
                    response.close()
                    break
        return Answer(status, retry_after_ms=delay_ms)

    def _socket(self, info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if reason := self._allowed.refusal(str(address[0])):
            raise AddressRefused(
                f"{address[0]} is refused: {reason}; only the setting webhooks.allow can allow it"
            )
        return socket.socket(family, kind, protocol)


@functools.cache
def _tls() -> ssl.SSLContext:
    """Return the TLS context with the system's certificates, which are slow to read."""
    return ssl.create_default_context()


def _reason(error: BaseException) -> str:
    """Return an error text for a failed request, without the URL, which may contain a token."""
    refused = error
    while refused is not None and not isinstance(refused, AddressRefused):
        refused = refused.__cause__ or refused.__context__  # type: ignore[assignment]
    if refused is not None:
        return str(refused)
    match error:
        case aiohttp.ClientConnectorError():
            return f"no connection: {error.os_error.strerror or error.os_error}"[:200]
        case aiohttp.ServerDisconnectedError():
            return "the receiver closed the connection"
        case aiohttp.ClientResponseError():
            return f"the answer is not HTTP: {error.message}"[:200]
    return f"the request failed ({type(error).__name__})"
