"""Finds the tables that a file defines: each is recorded while the file is loaded.

How this works: if several tables have one name, only the last is in the namespace of the file. So
while ``load`` runs a file, every definition is recorded, in order, also those in loops, lists and
functions. A table belongs to the file whose top-level code was running when it was defined; a table
that another module defines counts only if the file imports it by name.
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
    """The definitions recorded while a file and the modules that it imports were loaded."""

    def __init__(self, noted: list[tuple[object, str]], kind: type[T]) -> None:
        self._recorded = noted
        self._kind = kind

    def of(self, file: str) -> list[T]:
        """Return those that the top-level code of ``file`` made, in order."""
        return [each for each, by in self._recorded if by == file and isinstance(each, self._kind)]


@contextmanager
def recording_definitions(kind: type[T]) -> Iterator[Definitions[T]]:
    """Record all definitions made in the ``with`` block; ``of`` returns those of type ``kind``."""
    noted: list[tuple[object, str]] = []
    token = _recorded.set(noted)
    try:
        yield Definitions(noted, kind)
    finally:
        _recorded.reset(token)


def record_definition(made: object) -> None:
    """Record a table that the user's code defines, if a file is being loaded."""
    noted = _recorded.get()
    if noted is not None:
        top = _frame(top=True)
        noted.append((made, top.f_code.co_filename if top else ""))


def call_site() -> tuple[str, int]:
    """Return file and line of the user's code that called into this package; ("", 0) if none."""
    frame = _frame(top=False)
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def _frame(*, top: bool) -> FrameType | None:
    """Return the innermost stack frame outside this package; None if there is none.

    With ``top``, the innermost one that runs the top-level code of a module.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        ours = frame.f_globals.get("__name__", "").startswith(_OURS)
        if not ours and (not top or frame.f_code.co_name == _TOP):
            return frame
        frame = frame.f_back
    return None
