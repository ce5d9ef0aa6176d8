"""The attempt log: the topic ``webhooks.attempts`` has an event for each attempt to deliver one."""

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from mainstem.core.errors import TopicExists, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability
from mainstem.heads.webhooks.adapter.own_topics import events_since
from mainstem.heads.webhooks.endpoints import OWN_TOPICS
from mainstem.heads.webhooks.schedule import Verdict

if TYPE_CHECKING:
    from mainstem.broker.door import Door
    from mainstem.heads.context import HeadContext
    from mainstem.heads.webhooks.settings import WebhooksSettings

TOPIC = OWN_TOPICS + "attempts"
LOOK_BACK = 50_000
"""How many of the last attempts of all endpoints a listing searches."""
SEGMENT_BYTES = 16 * 1024 * 1024


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One attempt to deliver an event to an endpoint, and its result."""

    endpoint: str
    id: str
    topic: str
    partition: int
    offset: int
    attempt: int
    at_ms: int
    took_ms: int
    verdict: Verdict
    status: int | None = None
    error: str = ""
    retry_ms: int | None = None
    """The delay before the next attempt; None if there is none."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Attempt).decode


def event_of(attempt: Attempt) -> Event:
    """Convert an attempt to an event of the attempt log."""
    return Event(_encode(attempt), attempt.endpoint.encode(), timestamp_ms=attempt.at_ms)


def create_attempt_log(context: "HeadContext", settings: "WebhooksSettings") -> None:
    """Create the topic of the attempt log, or update its retention to the settings."""
    bounds: dict[str, object] = {
        "retention_ms": settings.attempts_retention_ms,
        "retention_bytes": settings.attempts_retention_bytes,
        "segment_bytes": min(SEGMENT_BYTES, settings.attempts_retention_bytes // 4),
    }
    durability = min(Durability.DISK, context.defaults.durability, key=list(Durability).index)
    wanted = context.defaults.altered(partitions=1, durability=durability, **bounds)
    try:
        context.broker.create_topic(TOPIC, wanted)
    except TopicExists:
        context.broker.alter_topic(TOPIC, **bounds)


def last_attempts(door: "Door", endpoint: str, limit: int, message_id: str = "") -> list[Attempt]:
    """Return the last attempts of an endpoint, only those of one message if ``message_id`` is set.

    The newest is last. Only the last LOOK_BACK attempts of all endpoints are searched.
    """
    found: deque[Attempt] = deque(maxlen=limit)
    try:
        bounds = door.bounds(TOPIC, 0)
    except UnknownTopic:
        return []
    key = endpoint.encode()
    for event in events_since(door, TOPIC, max(bounds.start, bounds.tail - LOOK_BACK)):
        if event.key == key and event.value is not None:
            attempt = _decode(event.value)
            if message_id in ("", attempt.id):
                found.append(attempt)
    return list(found)
