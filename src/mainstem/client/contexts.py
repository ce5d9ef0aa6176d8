"""Closing at the end of ``with`` and ``async with`` blocks."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """What a ``with`` block closes."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; an error means that what was given out last was not finished."""
        self._leave(failed=kind is not None)

    @abstractmethod
    def _leave(self, *, failed: bool) -> None:
        """Close; ``failed`` if an error ended the block."""


class AsyncClosing(ABC):
    """What an ``async with`` block closes."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; an error means that what was given out last was not finished."""
        await self._leave(failed=kind is not None)

    @abstractmethod
    async def _leave(self, *, failed: bool) -> None:
        """Close; ``failed`` if an error ended the block."""
