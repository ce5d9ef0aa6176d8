"""An event loop in a thread of its own, for tests that call a server from outside of it."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

PATIENCE_S = 60
T = TypeVar("T")


@contextmanager
def entered(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an async context in another thread, and leave it there when the block ends."""
    started: Future[tuple[T, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        stop = asyncio.Event()
        async with context as found:
            started.set_result((found, asyncio.get_running_loop(), stop))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    found, loop, stop = started.result(PATIENCE_S)
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
