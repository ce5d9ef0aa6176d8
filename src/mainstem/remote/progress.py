"""The read and committed offsets of one partition."""

import msgspec


class Progress(msgspec.Struct):
    """The read and committed offsets of one partition."""

    next: int
    """The offset after the last event received."""
    given: int
    finished: int
    limit: int | None = None
    """The offset to stop at; None to follow the tail."""
    committed: int | None = None
    asked: int | None = None
    """The offset in the latest commit request, answered or not."""
    done: bool = False
