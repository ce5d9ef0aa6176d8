"""The admin HTTP API of a server, as its client: the state and contents of queues."""

from http.client import HTTPConnection, HTTPException
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from mainstem.broker.door import QueueState
from mainstem.client.info import QueuedEvent, QueueInfo
from mainstem.client.queue_info import queue_info
from mainstem.core.errors import Unreachable
from mainstem.core.event import Event, Position
from mainstem.heads.admin.adapter import MAX_EVENTS
from mainstem.node.queue_peek import PeekedEvent
from mainstem.remote.admin_address import AdminPort

T = TypeVar("T")


class NotThere(Exception):
    """The server answered 404."""


def queues_at(port: AdminPort, timeout_s: float) -> tuple[QueueInfo, ...]:
    """Return every queue and share group of the server with that admin port."""
    found = _get(port, timeout_s, "/queues", {}, list[QueueState])
    return tuple(queue_info(each) for each in found)


def events_at(
    port: AdminPort, timeout_s: float, topic: str, name: str, limit: int, after: Position | None
) -> tuple[QueuedEvent, ...]:
    """Return the first unsettled events of a queue; fewer if they are large."""
    fields = {"topic": topic, "queue": name, "limit": str(min(limit, MAX_EVENTS))}
    if after is not None:
        fields["after"] = f"{after.partition}:{after.offset}"
    found = _get(port, timeout_s, "/queues/events", fields, list[PeekedEvent])
    return tuple(_event(topic, each) for each in found)


def _event(topic: str, it: PeekedEvent) -> QueuedEvent:
    place = (topic, it.partition, it.offset)
    event = Event(it.value, it.key, it.headers, it.timestamp_ms, *place)
    return QueuedEvent(event, it.deliveries, it.consumer)


def _get(port: AdminPort, timeout_s: float, path: str, fields: dict[str, str], kind: type[T]) -> T:
    connection = HTTPConnection(port.host, port.port, timeout=timeout_s)
    # The admin port only answers requests whose Host header names its own machine.
    headers = {"Host": "localhost"}
    try:
        connection.request(
            "GET", f"{path}?{urlencode(fields | {'run': port.run_id})}", None, headers
        )
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 404:
            raise NotThere
        if answer.status != 200:
            said = body.decode("utf-8", "replace").strip()
            raise Unreachable(port.address, f"its admin port says {answer.status}: {said:.300}")
        return msgspec.json.decode(body, type=kind)
    except (OSError, HTTPException, msgspec.DecodeError) as error:
        why = str(error) or type(error).__name__
        raise Unreachable(port.address, f"its admin port: {why}") from None
    finally:
        connection.close()
