"""Converts librdkafka's messages to events."""

from typing import cast

from confluent_kafka import Message

from mainstem.core.event import NO_TIMESTAMP, Event, Headers

_NO_TIMESTAMP_TYPE = 0


def event_of(message: Message, topic: str, partition: int, offset: int) -> Event:
    """Convert a librdkafka message to an event."""
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
