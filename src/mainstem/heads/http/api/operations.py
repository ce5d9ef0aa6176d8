"""The operations of the HTTP head: address, function, and description.

The router and the OpenAPI document are both made from this table, so they have the same operations.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import QueueState
from mainstem.heads.http.adapter import dead_letters, groups, queues, settling
from mainstem.heads.http.adapter.event_stream import MEDIA_TYPE as EVENT_STREAM
from mainstem.heads.http.adapter.publishing import publish
from mainstem.heads.http.adapter.reading import read
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.single_event import read_one
from mainstem.heads.http.api import parameters, shapes
from mainstem.heads.http.api.parameters import IN_PATH, Parameter
from mainstem.heads.http.formats import cloudevents
from mainstem.heads.http.formats.bodies import BYTES, EVENTS, JSON, NDJSON
from mainstem.heads.web.openapi import Schema

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from mainstem.heads.http.adapter.event_stream import EventStream

Endpoint = Callable[[Service, "Request"], Awaitable["Response | EventStream"]]
Content = Mapping[str, object]
"""By media type: the type that the JSON has, or a schema."""

_LINES: Schema = {"type": "string", "description": "A JSON value on each line."}
_BYTES: Schema = {"type": "string", "format": "binary"}
_PARTS: Schema = {"type": "object", "description": "Each part is an event."}
_CLOUD_EVENT: Schema = {
    "type": "object",
    "description": "A CloudEvent 1.0 in the JSON event format.",
    "properties": {"specversion": {"const": "1.0"}}
    | {name: {"type": "string", "minLength": 1} for name in ("id", "source", "type")},
    "required": list(cloudevents.REQUIRED),
}
_CLOUD_EVENTS: Schema = {"type": "array", "items": _CLOUD_EVENT, "minItems": 1}
_PUBLISHED_BODY: Content = {
    JSON: {"description": "One event: any JSON value."},
    NDJSON[0]: _LINES,
    EVENTS: _LINES | {"description": "An event on each line, as events are read."},
    cloudevents.STRUCTURED: _CLOUD_EVENT,
    cloudevents.BATCH: _CLOUD_EVENTS,
    "multipart/form-data": _PARTS,
    "multipart/mixed": _PARTS,
    BYTES: _BYTES,
    "text/plain": {"type": "string"},
}
_EVENTS_READ: Content = {
    JSON: shapes.Events,
    NDJSON[0]: {"type": "string", "description": "An event on each line."},
    cloudevents.BATCH: _CLOUD_EVENTS | {"minItems": 0},
    EVENT_STREAM: {"type": "string", "description": "A stream of Server-Sent Events."},
}
_ONE_EVENT: Content = {
    JSON: {"description": "If Accept names it, the event as in a range; else its JSON value."},
    cloudevents.STRUCTURED: _CLOUD_EVENT,
    "*/*": {"description": "The bytes of the event, with the attributes of a CloudEvent."},
}


class Operation(msgspec.Struct, frozen=True):
    """One method at one path: the function that serves it, and its description for OpenAPI."""

    method: str
    path: str
    endpoint: Endpoint
    summary: str
    tag: str
    answers: Mapping[int, Content]
    """The content of each response that is not an error, by status; empty if it has no body."""
    parameters: tuple[Parameter, ...] = ()
    """The parameters in the query and headers."""
    body: Content = {}
    needs_body: bool = False

    @property
    def path_parameters(self) -> list[Parameter]:
        """The parameters that are in the path."""
        return [IN_PATH[name] for name in re.findall(r"{(\w+)}", self.path)]


_IN_TOPIC = "/topics/{topic}"
_IN_QUEUE = "/topics/{topic}/queues/{queue}"
OPERATIONS = (
    Operation(
        "POST",
        f"{_IN_TOPIC}/events",
        publish,
        "Publish events in one append; answers when they are durable.",
        "events",
        {200: {JSON: shapes.Published}},
        parameters.LABELS,
        _PUBLISHED_BODY,
    ),
    Operation(
        "GET",
        f"{_IN_TOPIC}/events",
        read,
        "Read a range of events, wait for the next, or follow the topic.",
        "events",
        {200: _EVENTS_READ},
        parameters.SELECTION,
    ),
    Operation(
        "GET",
        f"{_IN_TOPIC}/events/{{partition}}/{{offset}}",
        read_one,
        "Read one event: its bytes, or as JSON or as a CloudEvent by the Accept header.",
        "events",
        {200: _ONE_EVENT},
    ),
    Operation(
        "GET",
        f"{_IN_TOPIC}/groups/{{group}}",
        groups.show,
        "Show how far a group has read a topic, and its lag.",
        "groups",
        {200: {JSON: groups.GroupInTopic}},
    ),
    Operation(
        "PUT",
        f"{_IN_TOPIC}/groups/{{group}}",
        groups.commit,
        "Store the position of a group in a topic.",
        "groups",
        {204: {}},
        (),
        {JSON: groups.GroupPosition},
        needs_body=True,
    ),
    Operation(
        "DELETE",
        "/groups/{group}",
        groups.delete,
        "Delete a group with all its positions.",
        "groups",
        {204: {}},
    ),
    Operation(
        "PUT",
        _IN_QUEUE,
        queues.create,
        "Create a queue (201), or change its settings (200).",
        "queues",
        {200: {JSON: QueueState}, 201: {JSON: QueueState}},
        (),
        {JSON: queues.QueueFields},
    ),
    Operation(
        "GET",
        _IN_QUEUE,
        queues.show,
        "Show a queue: its settings and state.",
        "queues",
        {200: {JSON: QueueState}},
    ),
    Operation("DELETE", _IN_QUEUE, queues.delete, "Delete a queue.", "queues", {204: {}}),
    Operation(
        "POST",
        f"{_IN_QUEUE}/leases",
        queues.lease,
        "Get the next events of a queue; the first such request creates the queue.",
        "queues",
        {200: {JSON: shapes.Lease}},
        parameters.LEASE,
    ),
    Operation(
        "POST",
        f"{_IN_QUEUE}/settlements",
        settling.settle_many,
        "Settle several deliveries in one append.",
        "queues",
        {200: {JSON: shapes.Settled}},
        (),
        {JSON: settling.Settlings},
        needs_body=True,
    ),
    Operation(
        "POST",
        f"{_IN_QUEUE}/deliveries/{{delivery}}/{{action}}",
        settling.settle_one,
        "Settle one delivery.",
        "queues",
        {204: {}},
        parameters.SETTLEMENT,
    ),
    Operation(
        "GET",
        f"{_IN_TOPIC}/dead-letters",
        dead_letters.letters,
        "List the dead letters of a topic that were not redriven.",
        "dead letters",
        {200: {JSON: shapes.Letters}},
        parameters.LETTERS,
    ),
    Operation(
        "POST",
        f"{_IN_TOPIC}/dead-letters/redrive",
        dead_letters.redrive,
        "Publish dead letters again to their original topics, in the append that settles them.",
        "dead letters",
        {200: {JSON: dead_letters.Redriven}},
        parameters.REDRIVE,
    ),
)
