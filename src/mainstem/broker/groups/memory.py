"""How much the texts take that members make the broker hold: more than they have characters."""

from collections.abc import Iterable

TEXT_BYTES = 64
"""What a text takes however short it is, and its place among others."""
_CHARACTER_BYTES = 4
"""What each character takes if not all of them are ASCII, at most."""


def texts_bytes(texts: Iterable[str | None]) -> int:
    """Return how many bytes of memory texts take, about; what is empty takes none."""
    return sum(
        TEXT_BYTES + len(text) * (1 if text.isascii() else _CHARACTER_BYTES)
        for text in texts
        if text
    )
