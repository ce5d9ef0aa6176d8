"""A range of offsets in one partition."""

import msgspec


class Range(msgspec.Struct, frozen=True):
    """A range of offsets in one partition: from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int
