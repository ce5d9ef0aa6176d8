"""How far one partition has been read and committed."""

import msgspec


class Progress(msgspec.Struct):
    """How far one partition has been read."""

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
