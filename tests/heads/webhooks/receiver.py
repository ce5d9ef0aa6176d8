"""A receiver of webhooks: a real HTTP server on loopback that answers as a test says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

Answering = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


class Receiver:
    """What has come to a receiver, and how it answers."""

    def __init__(self) -> None:
        self.port = 0
        self.host = "127.0.0.1"
        self.came: list[tuple[dict[str, str], bytes]] = []
        """Headers (names in lower case) and body of each request, in order."""
        self.answering: Answering = answer(204)
        self.now = self.most = 0
        """How many requests are being answered, and how many at most at a time."""
        self._more = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook"

    def bodies(self) -> list[bytes]:
        return [body for _, body in self.came]

    async def until(self, holds: Callable[[], bool], within_s: float = 30) -> None:
        """Wait until something holds after a request."""
        async with asyncio.timeout(within_s):
            while not holds():
                self._more.clear()
                await self._more.wait()

    async def got(self, count: int, within_s: float = 30) -> list[bytes]:
        """Return the bodies once so many requests have come."""
        await self.until(lambda: len(self.came) >= count, within_s)
        return self.bodies()

    def hold_after(self, count: int) -> asyncio.Event:
        """Answer so many requests at once, and the others when the event is set."""
        over = asyncio.Event()

        async def held(_: web.Request, __: bytes) -> web.StreamResponse:
            if len(self.came) > count:
                await over.wait()
            return web.Response()

        self.answering = held
        return over

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.came.append(({name.lower(): it for name, it in request.headers.items()}, body))
        self._more.set()
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self.answering(request, body)
        finally:
            self.now -= 1


def answer(status: int, **headers: str) -> Answering:
    """Answer every request with a status."""

    async def answered(_: web.Request, __: bytes) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, headers=named)

    return answered


@contextlib.asynccontextmanager
async def receiving(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Receiver]:
    """Run a receiver until the block ends; requests that hang are broken off then."""
    receiver = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, reuse_address=True)
        await site.start()
        receiver.host, receiver.port = runner.addresses[0][:2]
        yield receiver
    finally:
        await runner.cleanup()
