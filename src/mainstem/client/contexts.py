"""Base classes of objects that ``with`` or ``async with`` closes."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Self

from mainstem.core.errors import MainstemError


class Exits(ABC):
    """Base class whose subclass defines ``_leave``, which runs at the end of the ``with`` block."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        """Call ``_leave`` with the exception that ended the block, if any."""
        self._leave(error)

    @abstractmethod
    def _leave(self, error: BaseException | None) -> None:
        """Close or settle the object; ``error`` is the exception that ended the block, or None."""


class Closing(Exits):
    """Base class of objects that their ``with`` block closes."""

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    @abstractmethod
    def close(self) -> None:
        """Close the object."""

    def _leave(self, error: BaseException | None) -> None:
        self.close()


class AsyncExits(ABC):
    """Base class whose subclass defines ``_leave``, which runs at the end of ``async with``."""

    __slots__ = ()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        """Call ``_leave`` with the exception that ended the block, if any."""
        await self._leave(error)

    @abstractmethod
    async def _leave(self, error: BaseException | None) -> None:
        """Close or settle the object; ``error`` is the exception that ended the block, or None."""


class AsyncClosing(AsyncExits):
    """Base class of objects that their ``async with`` block closes."""

    async def __aenter__(self) -> Self:
        """Return this object."""
        return self

    @abstractmethod
    async def close(self) -> None:
        """Close the object."""

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()


def close_after(error: BaseException | None, close: Callable[[], None]) -> None:
    """Close at the end of a block; the block's own error takes precedence over one of ``close``."""
    try:
        close()
    except MainstemError:
        if error is None:
            raise


async def aclose_after(error: BaseException | None, closing: Awaitable[None]) -> None:
    """Await ``closing`` at the end of a block; the block's own error takes precedence over its."""
    try:
        await closing
    except MainstemError:
        if error is None:
            raise
