"""Queues over HTTP: events are leased, and each delivery is settled by a later request.

| HTTP | queue |
|---|---|
| lease | deliveries to a new owner, locked for the queue's ``lock_ms`` |
| ``delivery`` | the id of a delivery: partition, offset, lease number and owner |
| ack, nack, release, reject | outcomes |
| extend | the lock lasts ``lock_ms`` from now |
"""

from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from mainstem.broker.door import MAX_DELIVERIES, MAX_LOCK_MS, Delivery, Door, Order, QueueSettings
from mainstem.core.errors import MainstemError, UnknownQueue
from mainstem.core.names import check_group
from mainstem.heads.http.adapter.json_bodies import as_json, read_json
from mainstem.heads.http.adapter.selection import number
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.adapter.waits import Wait, waiting
from mainstem.heads.http.formats.event_json import event_json
from mainstem.heads.http.positions import EARLIEST, starts
from mainstem.heads.parked import Over
from mainstem.heads.web.waits import until_durable

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_LEASE = 1_000
"""Maximum number of deliveries of one lease request."""
MAX_LEASE_BYTES = 4 * 1024 * 1024


class QueueFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a queue in a request; absent ones keep their value, or get their default."""

    from_: Annotated[str, Meta(description="Where a new queue begins.")] = msgspec.field(
        name="from", default=EARLIEST
    )
    lock_ms: Annotated[int, Meta(ge=1, le=MAX_LOCK_MS)] | None = None
    max_deliveries: Annotated[int, Meta(ge=1, le=MAX_DELIVERIES)] | None = None
    dead_letters: bool | None = None
    max_unsettled: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    order: Order | None = None
    ttl_ms: Annotated[int, Meta(ge=0)] | None = None
    max_length: Annotated[int, Meta(ge=0)] | None = None
    max_bytes: Annotated[int, Meta(ge=0)] | None = None


def queue_of(request: "Request") -> tuple[str, str]:
    """Return the topic and the queue in a request's path; raises InvalidName."""
    name: str = request.path_params["queue"]
    check_group(name, "queue")
    return topic_of(request), name


async def create(service: Service, request: "Request") -> Response:
    """Create a queue, or change its settings."""
    topic, name = queue_of(request)
    door = service.door(request.scope)
    fields = await read_json(request, QueueFields, QueueFields())
    await service.ensure_topic(door, topic)
    before = door.queues.created_with(topic, name)
    given = {
        each: value
        for each, value in msgspec.structs.asdict(fields).items()
        if value is not None and each != "from_"
    }
    settings = msgspec.structs.replace(before or QueueSettings(), **given)
    settings.check()
    partitions = range(len(door.topic(topic).partitions))
    first = None if before is not None else starts(door, topic, fields.from_, partitions)
    await until_durable(service.context, door.queues.create(topic, name, settings, first))
    return as_json(door.queues.show(topic, name), 201 if before is None else 200)


async def show(service: Service, request: "Request") -> Response:
    """Answer with the settings and the state of a queue."""
    return as_json(service.door(request.scope).queues.show(*queue_of(request)))


async def delete(service: Service, request: "Request") -> Response:
    """Delete a queue."""
    topic, name = queue_of(request)
    queues = service.door(request.scope).queues
    if queues.created_with(topic, name) is None:
        raise UnknownQueue(topic, name)
    await until_durable(service.context, queues.delete(topic, name))
    return Response(status_code=204)


async def lease(service: Service, request: "Request") -> Response:
    """Acquire the next events of a queue for a client; wait up to ``wait_s`` for the first."""
    topic, name = queue_of(request)
    door = service.door(request.scope)
    limit = number(request, "limit", 1, MAX_LEASE, 1)
    wait_ms = number(request, "wait_s", 0, service.settings.max_wait_s) * 1000
    await ensure_queue(service, door, topic, name)
    leasing = _Lease(service, door, (topic, name), limit)
    taken = leasing.take_now()
    if not taken and wait_ms:
        async with waiting(service.context, request.receive, wait_ms) as wait:
            taken = await leasing.wait(wait)
            if taken and wait.over is Over.PEER:
                door.queues.leave(topic, name, leasing.owner)
                taken = []
    service.counts.read += len(taken)
    settings = door.queues.settings(topic, name)
    lock_ms = 0 if settings is None else settings.lock_ms
    return Response(
        b'{"deliveries":[%b],"lock_ms":%d}\n'
        % (b",\n".join(delivery_json(each, leasing.owner) for each in taken), lock_ms),
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


def delivery_json(delivery: Delivery, owner: str) -> bytes:
    """Return a delivery as JSON, with the id by which the client settles it."""
    event = delivery.event
    named = f"{event.partition}.{event.offset}.{delivery.lease}.{owner}".encode()
    return b'{"delivery":"%b","count":%d,"event":%b}' % (named, delivery.count, event_json(event))


class _Lease:
    """Acquires events of a queue for one request."""

    def __init__(self, service: Service, door: Door, queue: tuple[str, str], limit: int) -> None:
        self.owner = f"http-{token_hex(8)}"
        self._dispatcher, self._queues = service.context.dispatcher, door.queues
        self._queue, self._limit = queue, limit
        self._taken: list[Delivery] = []
        self._error: MainstemError | None = None

    def take_now(self) -> list[Delivery]:
        """Acquire available events, unless consumers that already wait get them all."""
        if self._dispatcher.go_first(*self._queue):
            self._acquire(self._limit)
        return self._taken

    async def wait(self, wait: Wait) -> list[Delivery]:
        """Wait as one of the queue's consumers until there are events, and acquire them."""

        def take(most: int) -> int:
            wait.wake()
            return self._acquire(min(most, self._limit - len(self._taken)))

        def gone(error: MainstemError) -> None:
            self._error = error
            wait.wake()

        consumer = self._dispatcher.consume(*self._queue, take, gone=gone, credit=self._limit)
        try:
            while not self._taken and self._error is None and wait.over is None:
                await wait.next()
        finally:
            consumer.close()
        if self._error is not None:
            raise self._error
        if self._taken and len(self._taken) < self._limit:
            self._acquire(self._limit - len(self._taken))
        return self._taken

    def _acquire(self, most: int) -> int:
        taken = self._queues.acquire(
            *self._queue, self.owner, max_events=most, max_bytes=MAX_LEASE_BYTES
        )
        self._taken += taken
        return len(taken)


async def ensure_queue(service: Service, door: Door, topic: str, name: str) -> None:
    """Create the queue if it does not exist and topics are created automatically.

    Raises UnknownQueue if they are not.
    """
    if door.queues.created_with(topic, name) is not None:
        return
    door.topic(topic)
    if not service.context.auto_create:
        raise UnknownQueue(topic, name)
    await until_durable(service.context, door.queues.create(topic, name))
