"""The records of ``__mainstem_delayed``: delayed events, and marks of published ones.

A delayed event's record has the event's value and headers; the record's key is JSON with the due
time, the target and the event's own key.
"""

from collections.abc import Iterable

import msgspec

from mainstem.core.event import Event

Range = tuple[int, int]
"""The first and the last of consecutive offsets."""


class ToTopic(msgspec.Struct, frozen=True, array_like=True, tag="topic"):
    """A target topic, stored by id: a later topic of the same name does not get the event."""

    topic_id: str
    partition: int | None = None
    """If None, the partition is chosen by the event's key, or in turn without a key."""


class ToRoute(msgspec.Struct, frozen=True, array_like=True, tag="route"):
    """A target that only a head can resolve; its router is called when the event is due."""

    head: str
    route: str


class Delayed(msgspec.Struct, frozen=True, array_like=True, tag="delayed/1"):
    """The key of the record of a delayed event."""

    due_ms: int
    """The due time, in wall-clock ms since 1970."""
    target: ToTopic | ToRoute
    key: bytes | None
    timestamp_ms: int


class Moved(msgspec.Struct, frozen=True, array_like=True, tag="moved/1"):
    """The key of a mark: events at these offsets are no longer delayed (published, or copied)."""

    ranges: tuple[Range, ...]


_encode = msgspec.json.Encoder().encode
decode_key = msgspec.json.Decoder(Delayed | Moved).decode


def delayed_record(event: Event, due_ms: int, target: ToTopic | ToRoute) -> Event:
    """Return the record of a delayed event."""
    key = _encode(Delayed(due_ms, target, event.key, event.timestamp_ms))
    return Event(event.value, key, event.headers)


def moved_record(moved: Moved) -> Event:
    """Return the record that marks events as no longer delayed."""
    return Event(None, _encode(moved))


def original(record: Event, said: Delayed) -> Event:
    """Return the event as it was when it was delayed."""
    return Event(record.value, said.key, record.headers, said.timestamp_ms)


def ranges_of(offsets: Iterable[int]) -> tuple[Range, ...]:
    """Return offsets as ranges, in ascending order."""
    found: list[Range] = []
    for offset in sorted(offsets):
        if found and offset == found[-1][1] + 1:
            found[-1] = found[-1][0], offset
        else:
            found.append((offset, offset))
    return tuple(found)
