"""Parses destinations (such as ``/queue/orders``) into topics and queues."""

import re
from collections.abc import Mapping
from enum import StrEnum, auto
from urllib.parse import unquote

import msgspec

TEMPORARY = "stomp.temp."
"""Prefix of the names of temporary queues' topics."""

_KIND = re.compile(r"/(topic|queue|temp-queue|reply-queue|amq/queue|exchange|temp-topic)(?=/|\Z)")
_UNSAFE = re.compile(r"[^a-zA-Z0-9._-]|_(?=x[0-9A-F]{4,6}_)")
_ESCAPED = re.compile(r"_x([0-9A-F]{4,6})_")
_WILDCARDS = frozenset("*#>")


class Kind(StrEnum):
    """The kind of a destination."""

    TOPIC = auto()
    QUEUE = auto()
    EXISTING = "amq/queue"
    """A queue that must exist, so is not created on first use."""
    TEMPORARY = "temp-queue"
    REPLY = "reply-queue"


class Destination(msgspec.Struct, frozen=True):
    """A destination, with its topic and its queue ("" for none)."""

    kind: Kind
    shown: str
    """The destination as the client wrote it."""
    topic: str = ""
    queue: str = ""


class BadDestination(Exception):
    """A destination is invalid or unsupported; has summary and detail for the ERROR frame."""

    def __init__(self, summary: str, detail: str) -> None:
        super().__init__(detail)
        self.summary, self.detail = summary, detail + "\n"


def topic_name(name: str) -> str:
    """Convert any text to a topic name: characters that topics cannot have become ``_xHHHH_``.

    Excel and SQL Server escape XML names in this way; ``plain_name`` reverses it.
    """
    escaped = _UNSAFE.sub(_escape, name)
    # These two names mean directories.
    return f"_x002E_{escaped[1:]}" if escaped in (".", "..") else escaped


def plain_name(topic: str) -> str:
    """Convert a topic name that ``topic_name`` has made to the original text."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), topic)


def parse(text: str) -> Destination:
    """Parse a destination; raises BadDestination."""
    found = _KIND.match(text)
    if found is None:
        raise BadDestination(
            "Unknown destination",
            f"{text!r:.200} is not a destination here; there are /queue/NAME, /topic/NAME, "
            "/temp-queue/NAME, /amq/queue/NAME",
        )
    kind, rest = found[1], text[found.end() :]
    if kind == "exchange":
        return _exchange(text, rest)
    if kind == "temp-topic":
        raise BadDestination(
            "Unsupported destination", "there is no /temp-topic here; use /topic or /temp-queue"
        )
    name = _name(kind, rest)
    match Kind(kind):
        case Kind.TOPIC:
            return _topic(name, text)
        case Kind.QUEUE | Kind.EXISTING:
            topic, pair, queue = name.partition("::")
            if pair and not (topic and queue):
                raise _invalid(kind, rest)
            return Destination(Kind(kind), text, topic_name(topic), queue or topic)
        case Kind.TEMPORARY:
            return Destination(Kind.TEMPORARY, text)
        case Kind.REPLY:
            return Destination(Kind.REPLY, text, TEMPORARY + topic_name(name))


def durable_name(headers: Mapping[str, str], named: str | None, client_id: str | None) -> str:
    """Return the queue name of a durable subscription, "" if it is not durable.

    ``named``: the subscription's id. Raises BadDestination.
    """
    for header in _SUBSCRIPTION_NAMES:
        if header in headers:
            if not client_id:
                raise BadDestination(
                    "Missing Header", f"{header!r} needs a 'client-id' header in CONNECT"
                )
            return f"{client_id}.{headers[header]}"
    if not is_durable(headers):
        return ""
    if named is None:
        raise BadDestination("Missing Header", "Header 'id' is required for durable subscriptions")
    return headers.get("x-queue-name", named)


def is_durable(headers: Mapping[str, str]) -> bool:
    """Tell whether a frame's headers are those of a durable subscription."""
    return (
        headers.get("durable", "").lower() == "true"
        or headers.get("persistent", "").lower() == "true"
        or any(name in headers for name in _SUBSCRIPTION_NAMES)
    )


_SUBSCRIPTION_NAMES = (
    "activemq.subscriptionName",
    "durable-subscription-name",
    "durable-subscriber-name",
)
"""Headers that name a durable subscription; the second and third are ActiveMQ Artemis' own."""


def _name(kind: str, rest: str) -> str:
    if not rest.startswith("/") or len(rest) < 2 or "/" in rest[1:]:
        raise _invalid(kind, rest)
    if "%" not in rest:
        return rest[1:]
    try:
        return unquote(rest[1:], errors="strict")
    except UnicodeDecodeError:
        raise _invalid(kind, rest) from None


def _topic(name: str, shown: str) -> Destination:
    if not _WILDCARDS.isdisjoint(name):
        raise BadDestination(
            "Unsupported destination",
            f"{shown!r:.200} has a wildcard (*, # or >): subscribe to each topic by its name",
        )
    return Destination(Kind.TOPIC, shown, topic_name(name))


def _exchange(text: str, rest: str) -> Destination:
    _, _, path = rest.partition("/")
    exchange, slash, key = path.partition("/")
    if not exchange or "/" in key:
        raise _invalid("exchange", rest)
    if exchange == "amq.topic" and slash:
        # RabbitMQ's alias for /topic/KEY.
        return _topic(_name("topic", f"/{key}"), f"/topic/{key}")
    raise BadDestination(
        "not_found", f"no exchange {exchange!r:.200}: there are none here; use /topic or /queue"
    )


def _invalid(kind: str, rest: str) -> BadDestination:
    return BadDestination("Invalid destination", f"'{rest:.200}' is not a valid {kind} destination")


def _escape(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):04X}_"
