"""``mainstem.aio.open`` and ``mainstem.aio.connect``; they open the log in a thread."""

import asyncio
import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from mainstem.client.aio.embedded_stem import AsyncEmbeddedStem
from mainstem.client.aio.stem import AsyncContext
from mainstem.client.contexts import AsyncExits
from mainstem.client.embedded.stem import open_stem

if TYPE_CHECKING:
    from mainstem.client.aio.connected_stem import AsyncConnectedStem
    from mainstem.remote.cluster import Setting


def open_async(path: str | os.PathLike[str], **config: object) -> "Opening[AsyncEmbeddedStem]":
    """Open a log as ``mainstem.open`` does; use with ``async with`` or ``await``."""
    return Opening(lambda: AsyncEmbeddedStem(open_stem(path, **config)))


def connect_async(
    address: str, *, timeout_s: float = 5.0, **settings: "Setting"
) -> "Opening[AsyncConnectedStem]":
    """Connect to a server as ``mainstem.connect`` does; use with ``async with`` or ``await``."""

    def make() -> "AsyncConnectedStem":
        # Imported here, because programs without a server need no Kafka client.
        from mainstem.client.aio.connected_stem import AsyncConnectedStem  # noqa: PLC0415
        from mainstem.client.connected.stem import connect  # noqa: PLC0415

        return AsyncConnectedStem(connect(address, timeout_s=timeout_s, **settings))

    return Opening(make)


class _Closes(Protocol):
    def close(self) -> None: ...


class _Opened(AsyncContext, Protocol):
    @property
    def blocking(self) -> _Closes: ...


S = TypeVar("S", bound=_Opened)


class Opening(AsyncExits, Generic[S]):
    """What ``open`` and ``connect`` return: ``await`` or ``async with`` opens the log."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._stem: S | None = None

    def __await__(self) -> Generator[object, None, S]:
        """Open the log and return its ``AsyncStem``."""
        return self._open().__await__()

    async def __aenter__(self) -> S:
        """Open the log and return its ``AsyncStem``."""
        self._stem = await self
        return self._stem

    async def _leave(self, error: BaseException | None) -> None:
        """Close the stem, if it was opened."""
        if self._stem is not None:
            await self._stem.__aexit__(type(error) if error else None, error, None)

    async def _open(self) -> S:
        # In a thread of its own, so that a log opened for a cancelled task can still be closed.
        thread = ThreadPoolExecutor(1, "mainstem-open")
        opening = thread.submit(copy_context().run, self._make)
        thread.shutdown(wait=False)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise


def _close(opening: Future[S]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().blocking.close()
