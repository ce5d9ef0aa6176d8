"""The messages of a WebSocket: JSON objects; ``do`` (client) or ``type`` (server) says which."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mainstem.broker.door import MAX_LOCK_MS
from mainstem.core.errors import InvalidEvent, MainstemError
from mainstem.heads.http.formats.event_json import EventFields
from mainstem.heads.web.problem import Refused, problem_of

MAX_CREDIT = 1_000_000
Id = Annotated[str, Meta(min_length=1, max_length=255)]
Credit = Annotated[int, Meta(ge=0, le=MAX_CREDIT)]
Ref = str | int | None


class Request(
    msgspec.Struct, tag_field="do", frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """What all messages of a client have in common."""

    ref: Ref = None
    """Names the message in its answer."""


class Subscribe(Request, tag="subscribe", frozen=True, kw_only=True):
    """Follow a topic, or consume a queue."""

    id: Id
    """The id that the client chooses for the subscription, and that all messages about it have."""
    topic: str
    queue: str | None = None
    credit: Credit | None = None
    """How many events may be sent. Without it there is no limit for a topic, and 100 for a queue.
    Settling a delivery of a queue returns its credit.
    """
    from_: str | None = msgspec.field(name="from", default=None)
    group: str | None = None
    partitions: list[int] | None = None
    key: str | None = None
    filters: Annotated[list[str], Meta(max_length=16)] = []


class Unsubscribe(Request, tag="unsubscribe", frozen=True, kw_only=True):
    """End a subscription; unsettled deliveries of a queue are delivered again."""

    id: Id


class AddCredit(Request, tag="credit", frozen=True, kw_only=True):
    """Increase how many more events the server may send for a subscription."""

    id: Id
    credit: Annotated[int, Meta(ge=1, le=MAX_CREDIT)]


class Settle(Request, tag="settle", frozen=True, kw_only=True):
    """Settle deliveries of a queue; confirmed when it is durable if ``ref`` is given."""

    id: Id
    deliveries: Annotated[list[str], Meta(min_length=1, max_length=10_000)]
    action: Literal["ack", "nack", "release", "reject"] = "ack"
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_LOCK_MS)] = 0
    reason: Annotated[str, Meta(max_length=10_000)] = ""


class Commit(Request, tag="commit", frozen=True, kw_only=True):
    """Commit the position of a subscription's group: the events before it are processed."""

    id: Id
    position: str


class Publish(Request, tag="publish", frozen=True, kw_only=True):
    """Publish events in one append; the answer has their positions."""

    topic: str
    events: Annotated[list[EventFields], Meta(min_length=1)]
    partition: int | None = None
    idempotency_key: str | None = None


FromClient = Subscribe | Unsubscribe | AddCredit | Settle | Commit | Publish
_read: msgspec.json.Decoder[FromClient] = msgspec.json.Decoder(FromClient)
_write = msgspec.json.Encoder().encode


def read(text: str | bytes) -> FromClient:
    """Decode a message of a client; raises InvalidEvent."""
    try:
        return _read.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"not a message as expected: {error}") from None


def ref_of(text: str | bytes) -> Ref:
    """Return the ``ref`` of an invalid message, None if it has none or is not JSON."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    ref = found.get("ref") if isinstance(found, dict) else None
    return ref if isinstance(ref, str | int) and not isinstance(ref, bool) else None


def done(ref: Ref) -> bytes:
    """Encode the confirmation of a request."""
    return b'{"type":"done","ref":%b}' % _write(ref)


def published(ref: Ref, positions: bytes) -> bytes:
    """Encode the answer to a publish; ``positions``: as JSON, without the outer braces."""
    return b'{"type":"published","ref":%b,%b}' % (_write(ref), positions)


def event(subscription: bytes, position: bytes, shown: bytes) -> bytes:
    """Encode an event of a topic with the position after it."""
    return b'{"type":"event","id":%b,"position":"%b","event":%b}' % (subscription, position, shown)


def delivery(subscription: bytes, shown: bytes) -> bytes:
    """Encode a delivery of a queue; ``shown``: the delivery as JSON."""
    return b'{"type":"delivery","id":%b,%b' % (subscription, shown[1:])


def missed(subscription: bytes, count: int) -> bytes:
    """Encode that retention deleted ``count`` offsets before they could be sent."""
    return b'{"type":"missed","id":%b,"missed":%d}' % (subscription, count)


def error(problem: MainstemError | Refused, ref: Ref = None) -> bytes:
    """Encode that a request was refused, and why."""
    return b'{"type":"error","ref":%b,"problem":%b}' % (_write(ref), problem_of(problem)[1])


def ended(subscription: bytes, problem: MainstemError) -> bytes:
    """Encode that a subscription ended, and why."""
    return b'{"type":"ended","id":%b,"problem":%b}' % (subscription, problem_of(problem)[1])


def quoted(subscription: str) -> bytes:
    """Encode the id of a subscription as JSON."""
    return _write(subscription)
