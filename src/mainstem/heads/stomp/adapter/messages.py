"""Converts SEND frames to events, and events to the headers of MESSAGE frames."""

from collections.abc import Iterator, Mapping

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import NATIVE_HEADER, Event
from mainstem.heads.stomp.session import Send

KEY = "mainstem-key"
POSITION = "mainstem-position"

DELAY = "AMQ_SCHEDULED_DELAY"

_NOT_CARRIED = frozenset(
    (
        "destination",
        "receipt",
        "transaction",
        "content-length",
        KEY,
        POSITION,
        NATIVE_HEADER,
        DELAY,
    )
)
"""Headers of SEND that are not headers of the event, or that only the server may set."""
_DELAY_DIGITS = 12
_OWN = frozenset(
    (
        "subscription",
        "destination",
        "message-id",
        "ack",
        "redelivered",
        "content-length",
        KEY,
        POSITION,
        NATIVE_HEADER,
    )
)
"""Headers of MESSAGE that the server sets; headers of events with these names are not sent."""

_QUEUE_ARGUMENTS = (
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-queue-type",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-single-active-consumer",
)
_ON_SEND = (
    *_QUEUE_ARGUMENTS,
    "AMQ_SCHEDULED_PERIOD",
    "AMQ_SCHEDULED_REPEAT",
    "AMQ_SCHEDULED_CRON",
)
_ON_SUBSCRIBE = (*_QUEUE_ARGUMENTS, "selector", "x-stream-offset", "x-stream-filter")
_ON_SUBSCRIBE_UNLESS_FALSE = (
    "auto-delete",
    "exclusive",
    "activemq.exclusive",
    "activemq.noLocal",
    "activemq.retroactive",
    "no-local",
    "browser",
)


def event_of(send: Send) -> Event:
    """Return the event that a SEND publishes."""
    headers = send.headers
    key = headers.get(KEY)
    carried = tuple((k, v.encode()) for k, v in headers.items() if k not in _NOT_CARRIED)
    return Event(send.body, None if key is None else key.encode(), carried)


def delay_of(send: Send) -> int:
    """Return the delay of a SEND in ms, from ActiveMQ's header; 0 if it has none."""
    text = send.headers.get(DELAY, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DELAY_DIGITS):
        raise InvalidSetting(
            f"{DELAY}:{text:.100} is no number of milliseconds: give 0 or more, at most "
            f"{_DELAY_DIGITS} digits"
        )
    return int(text)


def carried(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the headers of a MESSAGE that its event determines."""
    if event.key is not None:
        yield KEY, event.key.decode("utf-8", "replace")
    yield POSITION, f"{event.partition}:{event.offset}"
    has_time = False
    for name, value in event.headers:
        has_time = has_time or name == "timestamp"
        if name not in _OWN:
            yield name, (value or b"").decode("utf-8", "replace")
    if not has_time and event.timestamp_ms >= 0:
        yield "timestamp", str(event.timestamp_ms)


def unsupported(command: str, headers: Mapping[str, str]) -> str | None:
    """Return the name of a header that requests an unsupported feature, None if there is none."""
    for name in _ON_SEND if command == "SEND" else _ON_SUBSCRIBE:
        if name in headers:
            return name
    if command == "SUBSCRIBE":
        for name in _ON_SUBSCRIBE_UNLESS_FALSE:
            if headers.get(name, "false").lower() != "false":
                return name
    return None
