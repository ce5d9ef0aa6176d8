"""How far one partition has been read, and what librdkafka gives of it as an event."""

from typing import cast

import msgspec
from confluent_kafka import Message

from mainstem.core.event import NO_TIMESTAMP, Event, Headers

_NO_TIMESTAMP_TYPE = 0


class Track(msgspec.Struct):
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


def event_of(message: Message, topic: str, partition: int, offset: int) -> Event:
    """Return a message as an event."""
    kind, timestamp_ms = message.timestamp()
    headers = message.headers()
    return Event(
        message.value(),
        message.key(),
        cast("Headers", tuple(headers)) if headers else (),
        NO_TIMESTAMP if kind == _NO_TIMESTAMP_TYPE else timestamp_ms,
        topic,
        partition,
        offset,
    )
