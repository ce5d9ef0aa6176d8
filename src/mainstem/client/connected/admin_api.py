"""Client of a server's admin HTTP API: queues, and operations by name."""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from mainstem.broker.door import QueueState
from mainstem.client.info import QueuedEvent, QueueInfo
from mainstem.client.queue_info import queue_info
from mainstem.core.errors import Failure, InvalidSetting, Unreachable, Unsupported
from mainstem.core.event import Event, Position
from mainstem.heads.admin.settings import MAX_EVENTS
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.web.problem import PROBLEM_TYPE, Problem
from mainstem.node.queue_peek import PeekedEvent
from mainstem.remote.admin_address import AdminPort

T = TypeVar("T")


class NotThere(Exception):
    """Raised if the server has no such topic, queue or other resource, with its message."""


class NoSuchPage(NotThere):
    """Raised if the server has no such operation: its protocol is off, or the server is too old."""


def queues_at(port: AdminPort, timeout_s: float) -> tuple[QueueInfo, ...]:
    """Return all queues, also share groups, of the server with this admin port."""
    found = _get(port, timeout_s, "queues", {}, list[QueueState])
    return tuple(queue_info(each) for each in found)


def events_at(
    port: AdminPort, timeout_s: float, topic: str, name: str, limit: int, after: Position | None
) -> tuple[QueuedEvent, ...]:
    """Return the first unsettled events of a queue, or the first after ``after``.

    Returns at most ``limit`` events, or fewer if they are large.
    """
    fields = {"topic": topic, "queue": name, "limit": str(min(limit, MAX_EVENTS))}
    if after is not None:
        fields["after"] = f"{after.partition}:{after.offset}"
    found = _get(port, timeout_s, "queues/events", fields, list[PeekedEvent])
    return tuple(_event(topic, each) for each in found)


def _event(topic: str, it: PeekedEvent) -> QueuedEvent:
    place = (topic, it.partition, it.offset)
    event = Event(it.value, it.key, it.headers, it.timestamp_ms, *place)
    return QueuedEvent(event, it.deliveries, it.consumer)


def read_at(
    port: AdminPort, timeout_s: float, operation: str, fields: Mapping[str, str], kind: type[T]
) -> T:
    """Call a read-only operation of the admin API; return its answer as ``kind``.

    Raises the errors of ``change_at``.
    """
    return _ask(port, timeout_s, "GET", operation, fields, None, kind)


def change_at(
    port: AdminPort, timeout_s: float, operation: str, arguments: msgspec.Struct, kind: type[T]
) -> T:
    """Call an operation of the admin API that changes something; return its answer as ``kind``.

    Raises NotThere for a missing resource, OperationFailed for other refusals, and Unreachable if
    it is unknown whether the operation was done.
    """
    return _ask(port, timeout_s, "POST", operation, {}, msgspec.json.encode(arguments), kind)


def _get(port: AdminPort, timeout_s: float, path: str, fields: dict[str, str], kind: type[T]) -> T:
    return _ask(port, timeout_s, "GET", path, fields, None, kind)


def _ask(
    port: AdminPort,
    timeout_s: float,
    method: str,
    path: str,
    fields: Mapping[str, str],
    body: bytes | None,
    kind: type[T],
) -> T:
    connection = HTTPConnection(port.host, port.port, timeout=timeout_s)
    # The admin port only answers requests whose Host header names its own machine.
    headers = {"Host": "localhost"}
    if body is not None:
        headers |= {"Content-Type": "application/json", "X-Requested-By": "mainstem"}
    query = urlencode({**fields, "run": port.run_id})
    try:
        connection.request(method, f"/{path}?{query}", body, headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 200:
            return msgspec.json.decode(said, type=kind)
        raise _refused(port, path, answer, said)
    except (OSError, HTTPException, msgspec.DecodeError) as error:
        why = str(error) or type(error).__name__
        raise Unreachable(port.address, f"its admin port: {why}") from None
    finally:
        connection.close()


def _refused(port: AdminPort, path: str, answer: HTTPResponse, said: bytes) -> Exception:
    failure = None
    text = said.decode("utf-8", "replace").strip()
    if answer.getheader("Content-Type") == PROBLEM_TYPE:
        problem = msgspec.json.decode(said, type=Problem)
        failure, text = problem.failure, problem.detail
    if failure == Failure.NOT_FOUND:
        return NotThere(text)
    if answer.status == 404:
        return NoSuchPage(text)
    if failure == Failure.INVALID:
        return InvalidSetting(text)
    if failure:
        return OperationFailed(Failure(failure), text)
    if answer.status == 405:
        return Unsupported(f"the server at {port.address} is an older one: it has no {path}")
    return Unreachable(port.address, f"its admin port says {answer.status}: {text:.300}")
