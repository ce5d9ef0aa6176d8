"""Dead letters: events that could not be worked on, with why and from where in their headers."""

import msgspec

from mainstem.core.event import Event

PREFIX = "mainstem-"
"""How the headers begin that tell of the failure; all others are the event's own."""
SUFFIX = ".dead"
MAX_REASON = 1_000
"""Characters of a reason that are kept: errors may quote whole documents."""


class Origin(msgspec.Struct, frozen=True):
    """Where a dead letter comes from, and why it is one."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    subscription: str
    deliveries: int
    reason: str


def topic_of(topic: str) -> str:
    """Return the topic that a topic's dead letters go to."""
    return topic + SUFFIX


def buried(event: Event, subscription: str, deliveries: int, reason: str) -> Event:
    """Return an event as a dead letter: the same bytes, and its story in headers."""
    ours = {
        "topic": event.topic,
        "partition": event.partition,
        "offset": event.offset,
        "timestamp-ms": event.timestamp_ms,
        "subscription": subscription,
        "deliveries": deliveries,
        "reason": reason[:MAX_REASON],
    }
    told = tuple(
        (PREFIX + name, str(value).encode("utf-8", "replace")) for name, value in ours.items()
    )
    return Event(event.value, event.key, revived(event).headers + told)


def revived(letter: Event) -> Event:
    """Return a dead letter as the event it was."""
    own = tuple(each for each in letter.headers if not each[0].startswith(PREFIX))
    return Event(letter.value, letter.key, own)


def origin_of(letter: Event) -> Origin | None:
    """Return where a dead letter comes from; None if its headers do not say."""
    told = {
        name.removeprefix(PREFIX).replace("-", "_"): (value or b"").decode("utf-8", "replace")
        for name, value in letter.headers
        if name.startswith(PREFIX)
    }
    # Those of pipelines tell of a table, not of a subscription and its deliveries.
    told = {"subscription": told.get("table", ""), "deliveries": "1"} | told
    try:
        return msgspec.convert(told, Origin, strict=False)
    except msgspec.ValidationError:
        return None
