"""A fenced writer for an event loop: a thread makes the appends, in the order of the calls."""

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Self, TypeVar

from mainstem.client.aio.threaded import in_thread
from mainstem.client.aio.worker import Worker
from mainstem.client.contexts import AsyncClosing
from mainstem.client.stem import Writer
from mainstem.client.values import AsyncValues
from mainstem.core.errors import Closed
from mainstem.core.event import Position

T = TypeVar("T")


class ThreadedWriter(AsyncClosing):
    """Implements ``AsyncWriter``.

    It fences the previous writer of its name at ``async with`` or at the first call. If the task of
    an append is cancelled, the events are appended nevertheless.
    """

    def __init__(self, make: Callable[[], Writer]) -> None:
        self._make = make
        self._writer: Writer | None = None
        self._worker: Worker[None] = Worker("mainstem-writer")
        self._closed = False

    append = in_thread(Writer.append)
    truncate = in_thread(Writer.truncate)

    async def append_many(self, events: AsyncValues) -> list[Position]:
        """Append events, all or none; return their positions once they are durable."""
        if isinstance(events, AsyncIterable):
            given = [each async for each in events]
        else:
            given = list(events)
        return await self._call(lambda writer: writer.append_many(given))

    async def close(self) -> None:
        """Stop appending; another writer with the same name can be opened later."""
        if self._closed:
            return
        self._closed = True
        await self._worker.run(self._close)
        self._worker.end()

    async def __aenter__(self) -> Self:
        """Fence the previous writer, and return itself."""
        await self._call(lambda writer: None)
        return self

    def _call(self, call: Callable[[Writer], T]) -> "asyncio.Future[T]":
        """Run a call in the thread, after the earlier ones; the first call creates the writer."""
        if self._closed:
            raise Closed("the writer has been closed; open it again")
        return self._worker.run(lambda: call(self._opened()))

    def _opened(self) -> Writer:
        if self._writer is None:
            self._writer = self._make()
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
