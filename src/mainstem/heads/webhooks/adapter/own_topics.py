"""Reads the topics that only this head writes: attempts, and the ids of received webhooks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.event import Event

if TYPE_CHECKING:
    from mainstem.broker.door import Door


def events_since(door: "Door", topic: str, offset: int) -> Iterator[Event]:
    """Yield the events of a topic's only partition from an offset on, up to its tail."""
    feed = door.follow(topic, 0, offset)
    while True:
        try:
            events = feed.take()
        except OffsetOutOfRange as error:
            # Retention has deleted events since.
            feed.seek(error.start)
            continue
        if not events:
            return
        yield from events
