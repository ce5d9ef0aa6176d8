"""The read and committed offsets of one partition."""

import msgspec


class Progress(msgspec.Struct):
    """The read and committed offsets of one partition."""

    next: int
    """The offset after the last event received."""
    given: int
    finished: int
    limit: int | None = None
    """Where to stop; None to follow the tail."""
    committed: int | None = None
    asked: int | None = None
    """The offset of the commit that was last sent."""
    done: bool = False
