"""The event: what every producer writes and every consumer reads, whatever the protocol."""

import json
from typing import Any, NamedTuple

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]
NO_TIMESTAMP = -1


class Position(NamedTuple):
    """Where an event is: its partition and its offset in that partition's log."""

    partition: int
    offset: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """One immutable fact: what was written, and, once it is in the log, where it stands."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP
    topic: str = ""
    partition: int = -1
    offset: int = -1

    @property
    def position(self) -> Position:
        """Partition and offset."""
        return Position(self.partition, self.offset)

    def text(self) -> str:
        """Return the value as UTF-8 text; an absent value is the empty string."""
        return (self.value or b"").decode()

    def json(self) -> Any:  # noqa: ANN401 - JSON is whatever was written
        """Return the value parsed as JSON."""
        return json.loads(self.value or b"null")
