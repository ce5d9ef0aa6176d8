"""A Starlette app that does nothing else: the peer of the HTTP head.

It reads the body of a publish and answers with as many bytes as the HTTP head does. The lines of a
body go, framed once, to all that follow. uvicorn serves it with uvloop and httptools, as the HTTP
head is served.
"""

import asyncio
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

ANSWER = b'{"partition":0,"offset":1234567}'
_following: set[asyncio.Queue[bytes]] = set()


async def publish(request: Request) -> Response:
    """Read the body, give it to those that follow, and answer."""
    body = await request.body()
    lines = body.splitlines()
    if _following:
        data = b"".join(b"id: 0:1234567\ndata: %b\n\n" % line for line in lines)
        for queue in _following:
            queue.put_nowait(data)
    answer = b'{"positions":[%b]}\n' % b",".join([ANSWER] * len(lines))
    return Response(answer, media_type="application/json")


async def follow(_request: Request) -> Response:
    """Send what is published from now on."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    _following.add(queue)

    async def stream() -> AsyncIterator[bytes]:
        try:
            yield b"id: 0:0\n\n"
            while True:
                yield await queue.get()
        finally:
            _following.discard(queue)

    return StreamingResponse(stream(), media_type="text/event-stream")


app = Starlette(
    routes=[
        Route("/topics/{topic}/events", publish, methods=["POST"]),
        Route("/topics/{topic}/events", follow, methods=["GET"]),
    ]
)


if __name__ == "__main__":
    config = uvicorn.Config(
        app, "127.0.0.1", 0, loop="uvloop", http="httptools", log_level="info", access_log=False
    )
    uvicorn.Server(config).run()
