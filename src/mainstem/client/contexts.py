"""Base classes for ``with`` and ``async with``."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Exits(ABC):
    """Base class whose ``_leave`` runs at the end of the ``with`` block."""

    __slots__ = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close or settle; after an error the events returned last are not finished."""
        self._leave(error)

    @abstractmethod
    def _leave(self, error: BaseException | None) -> None:
        """Close or settle; ``error`` is the exception that ended the block, None without one."""


class Closing(Exits):
    """Base class that is closed by its ``with`` block."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self


class AsyncExits(ABC):
    """Base class whose ``_leave`` runs at the end of the ``async with`` block."""

    __slots__ = ()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close or settle; after an error the events returned last are not finished."""
        await self._leave(error)

    @abstractmethod
    async def _leave(self, error: BaseException | None) -> None:
        """Close or settle; ``error`` is the exception that ended the block, None without one."""


class AsyncClosing(AsyncExits):
    """Base class that is closed by its ``async with`` block."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self
