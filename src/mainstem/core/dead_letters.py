"""Dead letters: events that could not be processed, with reason and origin in their headers."""

from hashlib import sha256

import msgspec

from mainstem.core.event import Event
from mainstem.core.names import MAX_TOPIC_LENGTH

PREFIX = "mainstem-"
"""Prefix of the headers that describe the failure."""
SUFFIX = ".dead"
MAX_REASON = 1_000
"""Maximum length of a reason, since errors may quote whole documents."""

_DIGITS = 16
"""Length of the hash that replaces the end of a name that is too long."""
_COMMON = {"topic", "partition", "offset", "timestamp-ms", "reason"}
_OF_QUEUES = {"subscription", "deliveries"}
_OF_TABLES = {"table"}


class Origin(msgspec.Struct, frozen=True):
    """Where a dead letter comes from, and why it is one."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    queue: str = msgspec.field(name="subscription")
    deliveries: int
    reason: str


def topic_of(topic: str) -> str:
    """Return the topic for dead letters of a topic: ``<topic>.dead``, shortened if too long.

    A longer name is cut and gets a hash of the full name, so that the same topic is always found.
    """
    most = MAX_TOPIC_LENGTH - len(SUFFIX)
    if len(topic) > most:
        digest = sha256(topic.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
        topic = f"{topic[: most - _DIGITS - 1]}-{digest}"
    return topic + SUFFIX


def buried(event: Event, queue: str, deliveries: int, reason: str) -> Event:
    """Return an event as a dead letter: same key and value, with the failure in added headers."""
    ours = {
        "topic": event.topic,
        "partition": event.partition,
        "offset": event.offset,
        "timestamp-ms": event.timestamp_ms,
        "subscription": queue,
        "deliveries": deliveries,
        "reason": reason[:MAX_REASON],
    }
    told = tuple(
        (PREFIX + name, str(value).encode("utf-8", "replace")) for name, value in ours.items()
    )
    return Event(event.value, event.key, event.headers + told)


def revived(letter: Event) -> Event:
    """Return the original event of a dead letter, without the headers of its last failure."""
    story = set(_story(letter).values())
    own = tuple(each for at, each in enumerate(letter.headers) if at not in story)
    return Event(letter.value, letter.key, own)


def origin_of(letter: Event) -> Origin | None:
    """Return the origin of a dead letter; None if its headers do not have it."""
    told = {
        name.replace("-", "_"): (letter.headers[at][1] or b"").decode("utf-8", "replace")
        for name, at in _story(letter).items()
    }
    # Dead letters of pipelines name a table instead of a queue and its deliveries.
    told = {"subscription": told.get("table", ""), "deliveries": "1"} | told
    try:
        return msgspec.convert(told, Origin, strict=False)
    except msgspec.ValidationError:
        return None


def _story(letter: Event) -> dict[str, int]:
    """Return the indexes of the last failure's headers, by name; empty if one is missing.

    Only the last header of each name counts: the event may have had headers of these names before,
    such as those of an earlier failure.
    """
    last = {
        name.removeprefix(PREFIX): at
        for at, (name, _) in enumerate(letter.headers)
        if name.startswith(PREFIX)
    }
    of_table = last.get("table", -1) > last.get("subscription", -1)
    names = _COMMON | (_OF_TABLES if of_table else _OF_QUEUES)
    return {name: at for name, at in last.items() if name in names} if names <= set(last) else {}
