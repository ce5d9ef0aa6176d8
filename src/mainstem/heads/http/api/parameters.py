"""The parameters of the operations of the HTTP head: path, query and headers."""

import msgspec

from mainstem.broker.door import MAX_LOCK_MS
from mainstem.core.names import MAX_GROUP_LENGTH, MAX_TOPIC_LENGTH
from mainstem.heads.http.adapter.idempotency import MAX_KEY_LENGTH
from mainstem.heads.web.openapi import Place, Schema

_OFFSET: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_GROUP_LENGTH}
_PARTITION: Schema = {"type": "integer", "minimum": 0, "maximum": 999_999_999}


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of an operation, in the path, the query or the headers."""

    name: str
    description: str
    schema: Schema
    place: Place = "query"


_topic: Schema = {
    "type": "string",
    "pattern": f"^[A-Za-z0-9._-]{{1,{MAX_TOPIC_LENGTH}}}$",
}
IN_PATH = {
    "topic": Parameter("topic", "Name of the topic.", _topic, "path"),
    "queue": Parameter("queue", "Name of the queue.", _NAME, "path"),
    "group": Parameter("group", "Name of the group.", _NAME, "path"),
    "partition": Parameter("partition", "Number of the partition.", _OFFSET, "path"),
    "offset": Parameter("offset", "Offset in the partition.", _OFFSET, "path"),
    "delivery": Parameter("delivery", "The delivery, as the lease named it.", _TEXT, "path"),
    "action": Parameter(
        "action",
        "What becomes of the delivery.",
        {"type": "string", "enum": ["ack", "nack", "release", "reject", "extend"]},
        "path",
    ),
}
"""All parameters in paths, by name."""

LABELS = (
    Parameter("key", "Key of all events (header Mainstem-Key).", _TEXT),
    Parameter("header", "NAME:VALUE, a header of all events (Mainstem-Header-NAME).", _TEXTS),
    Parameter("partition", "Partition of all events (Mainstem-Partition).", _PARTITION),
    Parameter(
        "timestamp_ms",
        "Time of all events in milliseconds since 1970 (Mainstem-Timestamp-Ms).",
        _OFFSET,
    ),
    Parameter(
        "deleted",
        "Publish an event without a value, which deletes its key in a compacted topic; no body.",
        {"type": "boolean", "default": False},
    ),
    Parameter(
        "Idempotency-Key",
        "A repeated request with the same key gets the first answer, and publishes nothing.",
        {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[!-~]+$"},
        "header",
    ),
)
"""The parameters of a publish."""

SELECTION = (
    Parameter(
        "from", "earliest (the default), latest, an offset, a position such as 0:12, a time.", _TEXT
    ),
    Parameter("to", "Where to end (exclusive), written like from; not for streams.", _TEXT),
    Parameter(
        "partition",
        "Only these partitions.",
        {"type": "array", "items": _PARTITION},
    ),
    Parameter("key", "Only events with this key.", _TEXT),
    Parameter("filter", "Only events that match, such as value.amount>5.", _TEXTS),
    Parameter("group", "Begin at the position that this group has committed.", _NAME),
    Parameter("limit", "Maximum number of events (100); not for streams.", _COUNT),
    Parameter(
        "wait_s",
        "Seconds to wait for the first event; not for streams.",
        {"type": "integer", "minimum": 0},
    ),
    Parameter("Last-Event-ID", "The position from which a stream is resumed.", _TEXT, "header"),
)
"""The parameters of a read of a range."""

LEASE = (
    Parameter("limit", "Maximum number of deliveries (1).", _COUNT | {"maximum": 1_000}),
    Parameter(
        "wait_s",
        "Seconds to wait for the first delivery.",
        {"type": "integer", "minimum": 0},
    ),
)
SETTLEMENT = (
    Parameter(
        "delay_ms",
        "After how many milliseconds a nacked event may come again.",
        {"type": "integer", "minimum": 0, "maximum": MAX_LOCK_MS},
    ),
    Parameter("reason", "Why the event is rejected; in the dead letter's headers.", _TEXT),
)
LETTERS = (
    Parameter("limit", "Maximum number of dead letters (100).", _COUNT | {"maximum": 1_000}),
)
REDRIVE = (*LETTERS, Parameter("to", "Publish to this topic instead.", _topic))
