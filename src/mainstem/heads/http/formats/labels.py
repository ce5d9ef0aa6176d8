"""Key, headers, partition and timestamp for the events of a request, from its query and headers."""

from collections.abc import Callable, Iterable

import msgspec

from mainstem.core.errors import InvalidEvent
from mainstem.core.event import NO_TIMESTAMP, Event, Headers
from mainstem.heads.http.formats.event_json import checked_time

KEY, PARTITION, TIMESTAMP = b"mainstem-key", b"mainstem-partition", b"mainstem-timestamp-ms"
PREFIX = b"mainstem-"
"""Prefix of all HTTP headers that set labels."""
HEADER = b"mainstem-header-"
"""Prefix of HTTP headers that become headers of the events."""
CONTENT_TYPE = "content-type"
"""The event header that holds the media type of a value, if it is not JSON."""


class Labels(msgspec.Struct, frozen=True):
    """The properties that a request sets for all its events."""

    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int = NO_TIMESTAMP
    deleted: bool = False
    """Whether the event has no value, which deletes its key in a compacted topic."""

    def event(self, value: bytes | None, *headers: tuple[str, bytes | None]) -> Event:
        """Return an event with these labels, and further headers."""
        return Event(value, self.key, (*self.headers, *headers), self.timestamp_ms)

    def events(self, values: Iterable[bytes]) -> list[Event]:
        """Return an event with these labels for each value."""
        key, headers, timestamp_ms = self.key, self.headers, self.timestamp_ms
        return [Event(value, key, headers, timestamp_ms) for value in values]

    def added_to(self, event: Event) -> Event:
        """Return an event with those labels added that it does not set itself."""
        return Event(
            event.value,
            self.key if event.key is None else event.key,
            event.headers + self.headers,
            self.timestamp_ms if event.timestamp_ms == NO_TIMESTAMP else event.timestamp_ms,
        )


NO_LABELS = Labels()


def labels(query: Callable[[str], list[str]], headers: Iterable[tuple[bytes, bytes]]) -> Labels:
    """Parse the labels of a request; ``query`` returns the values of a parameter.

    Raises InvalidEvent.
    """
    found: dict[bytes, bytes] = {}
    pairs: list[tuple[str, bytes | None]] = []
    for name, value in headers:
        if name.startswith(HEADER):
            pairs.append((name[len(HEADER) :].decode("latin-1"), value))
        elif name in (KEY, PARTITION, TIMESTAMP):
            found[name] = value
    for each in query("header"):
        name_, colon, value_ = each.partition(":")
        if not colon or not name_:
            raise InvalidEvent(f"header={each!r:.100}: write header=NAME:VALUE")
        pairs.append((name_, value_.strip().encode()))
    key = found.get(KEY)
    if given := query("key"):
        key = given[-1].encode()
    partition = _number("partition", query("partition"), found.get(PARTITION))
    timestamp_ms = _number("timestamp_ms", query("timestamp_ms"), found.get(TIMESTAMP))
    return Labels(
        key,
        tuple(pairs),
        partition,
        NO_TIMESTAMP if timestamp_ms is None else checked_time(timestamp_ms),
        _flag("deleted", query("deleted")),
    )


def _number(name: str, given: list[str], header: bytes | None) -> int | None:
    said = given[-1] if given else None if header is None else header.decode("latin-1")
    if said is None:
        return None
    if not (said.isascii() and said.isdigit() and len(said) < 20):
        raise InvalidEvent(f"{name} {said!r:.50} is not a number")
    return int(said)


def _flag(name: str, given: list[str]) -> bool:
    said = given[-1] if given else "false"
    if said not in ("true", "false"):
        raise InvalidEvent(f"{name} must be true or false, not {said!r:.50}")
    return said == "true"
