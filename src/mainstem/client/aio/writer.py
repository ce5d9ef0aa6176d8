"""A fenced writer for an event loop: a thread appends, in the order of the calls."""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from mainstem.client.aio.worker import Worker
from mainstem.client.stem import Writer
from mainstem.client.values import HeadersLike, Key, Value
from mainstem.core.errors import Closed
from mainstem.core.event import Event, Position

T = TypeVar("T")


class ThreadedWriter:
    """Implements ``AsyncWriter``; it takes over at ``async with``, or at the first call.

    An append whose task is cancelled is made all the same.
    """

    def __init__(self, make: Callable[[], Writer]) -> None:
        self._make = make
        self._writer: Writer | None = None
        self._worker: Worker[None] = Worker("mainstem-writer")
        self._closed = False

    async def append(
        self,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
    ) -> Position:
        """Append one event; return where it stands, once durable; raises WriterFenced."""
        return await self._run(
            lambda: self._opened().append(
                value, key=key, headers=headers, timestamp_ms=timestamp_ms
            )
        )

    async def append_many(
        self, events: Iterable[Value | Event] | AsyncIterable[Value | Event]
    ) -> list[Position]:
        """Append events, all or none; return where they stand, once durable."""
        if isinstance(events, AsyncIterable):
            given = [each async for each in events]
        else:
            given = list(events)
        return await self._run(lambda: self._opened().append_many(given))

    async def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""
        await self._run(lambda: self._opened().truncate(before))

    async def close(self) -> None:
        """Append no more; the name stays with this writer until another takes over."""
        if self._closed:
            return
        closing = self._run(self._close)
        self._closed = True
        await closing
        self._worker.end()

    async def __aenter__(self) -> Self:
        """Take over, and return itself."""
        await self._run(self._opened)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    def _run(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        if self._closed:
            raise Closed("the writer has been closed; open it again")
        return self._worker.run(call)

    def _opened(self) -> Writer:
        """Return the writer, in the thread; the first call makes it."""
        if self._writer is None:
            self._writer = self._make()
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
