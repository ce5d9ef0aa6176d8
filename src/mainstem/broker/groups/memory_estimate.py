"""Estimated memory used by group members' strings."""

from collections.abc import Iterable

TEXT_BYTES = 64
"""The overhead of a string, with its slot in a container."""
_CHARACTER_BYTES = 4
"""Maximum bytes per character in a string that is not all ASCII."""


def texts_bytes(texts: Iterable[str | None]) -> int:
    """Return the estimated memory of strings; empty ones count 0."""
    return sum(
        TEXT_BYTES + len(text) * (1 if text.isascii() else _CHARACTER_BYTES)
        for text in texts
        if text
    )
