"""The event: what every producer writes and every consumer reads, whatever the protocol."""

from typing import Any, NamedTuple

import msgspec

from mainstem.core.errors import UnreadableValue

Headers = tuple[tuple[str, bytes | None], ...]
NO_TIMESTAMP = -1
NATIVE_HEADER = "mainstem-native"
"""The header that holds a message as its protocol encodes it, for consumers of that protocol.

Its value begins with the protocol head's name and a NUL. Whatever other protocols can use of the
message is also in plain headers, so they do not pass this header to their clients.
"""


ID_HEADER = "mainstem-id"
"""The header with a unique id (UUIDv7) that all copies of a message have, if it is in several
topics: they have different positions.
"""


class Position(NamedTuple):
    """The position of an event: partition and offset."""

    partition: int
    offset: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event, with its position once it is in the log."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP
    topic: str = ""
    partition: int = -1
    offset: int = -1

    @property
    def position(self) -> Position:
        """The event's partition and offset in the topic."""
        return Position(self.partition, self.offset)

    def text(self) -> str:
        """Return the value as UTF-8 text, "" without a value.

        Raises UnreadableValue if it is not UTF-8.
        """
        try:
            return (self.value or b"").decode()
        except UnicodeDecodeError as error:
            raise UnreadableValue("UTF-8 text", self._place(), str(error)) from None

    def json(self) -> Any:  # noqa: ANN401 - JSON is whatever was written
        """Return the value parsed as strict JSON, None without a value; raises UnreadableValue.

        NaN, Infinity and lone surrogates are not JSON [RFC 8259]; numbers that Python cannot hold
        (1e999, thousands of digits) and too deep nesting are refused. If a name is repeated, the
        last value counts.
        """
        if self.value is None:
            return None
        try:
            return msgspec.json.decode(self.value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreadableValue("JSON", self._place(), str(error)) from None
        except RecursionError:
            raise UnreadableValue("JSON", self._place(), "it is nested too deeply") from None

    def _place(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}" if self.topic else "the event"
