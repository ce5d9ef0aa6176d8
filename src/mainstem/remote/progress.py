"""How far one partition has been read and committed."""

import msgspec


class Progress(msgspec.Struct):
    """How far one partition has been read."""

    next: int
    """After the last event that we have."""
    given: int
    finished: int
    limit: int | None = None
    """Where to stop; None to follow."""
    committed: int | None = None
    asked: int | None = None
    """What is being committed, or was: an answer may still come."""
    done: bool = False
