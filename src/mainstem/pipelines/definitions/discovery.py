"""Finds the tables that a file defines: each is recorded while the file is loaded.

How this works: if several tables have one name, only the last is in the namespace of the file. So
while ``load`` runs a file, every definition is recorded in order, also those made in loops, lists
and functions. A table belongs to the file whose top-level code was running; a table that another
module defines counts only if the file imports it by name.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Generic, TypeVar

T = TypeVar("T")

_TOP = "<module>"
_OURS = "mainstem.pipelines"
_recorded: ContextVar[list[tuple[object, str]] | None] = ContextVar("recorded", default=None)


class Definitions(Generic[T]):
    """The definitions that were made while a file was loaded."""

    def __init__(self, noted: list[tuple[object, str]], kind: type[T]) -> None:
        self._recorded = noted
        self._kind = kind

    def of(self, file: str) -> list[T]:
        """Return the definitions made by the file itself, in order."""
        return [each for each, by in self._recorded if by == file and isinstance(each, self._kind)]


@contextmanager
def recording_definitions(kind: type[T]) -> Iterator[Definitions[T]]:
    """Record all definitions made inside the block."""
    noted: list[tuple[object, str]] = []
    token = _recorded.set(noted)
    try:
        yield Definitions(noted, kind)
    finally:
        _recorded.reset(token)


def record_definition(made: object) -> None:
    """Record a definition, if a file is being loaded."""
    noted = _recorded.get()
    if noted is not None:
        top = _frame(top=True)
        noted.append((made, top.f_code.co_filename if top else ""))


def call_site() -> tuple[str, int]:
    """Return the file and line in the user's code from which our code was called."""
    frame = _frame(top=False)
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def _frame(*, top: bool) -> FrameType | None:
    """Return the innermost stack frame outside our package; with ``top``, that of a module."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        ours = frame.f_globals.get("__name__", "").startswith(_OURS)
        if not ours and (not top or frame.f_code.co_name == _TOP):
            return frame
        frame = frame.f_back
    return None
