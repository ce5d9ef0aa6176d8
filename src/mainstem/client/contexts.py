"""Base classes of objects that ``with`` and ``async with`` close."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Exits(ABC):
    """Base class whose subclass defines ``_leave``, which runs at the end of the ``with`` block."""

    __slots__ = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


class AsyncExits(ABC):
    """Base class whose subclass defines ``_leave``, which runs at the end of ``async with``."""

    __slots__ = ()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
