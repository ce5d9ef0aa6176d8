"""The operation that publishes an event later: ``stem.schedule`` for connected clients."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.broker.door import DelayedEvent, Door, HeldPublish
from mainstem.core.errors import InvalidSetting, UnknownTopic
from mainstem.core.event import NO_TIMESTAMP, Event
from mainstem.heads.admin_operations import operation
from mainstem.node.api.door_operations import DoorOperations

SCHEDULE = "events/schedule"
MAX_MS = 2**53
"""Maximum of a delay and of a due time: what JSON numbers can hold everywhere."""
Milliseconds = Annotated[int, Meta(ge=0, le=MAX_MS)]


class ScheduleEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publish an event later: after a delay, or at a time."""

    topic: str
    value: Annotated[bytes | None, Meta(description="In base64; null deletes the key.")]
    key: Annotated[bytes | None, Meta(description="In base64.")] = None
    headers: Annotated[
        tuple[tuple[str, bytes | None], ...], Meta(description="Names, and values in base64.")
    ] = ()
    timestamp_ms: Annotated[
        Milliseconds | None, Meta(description="Otherwise the time at which it is published.")
    ] = None
    partition: Annotated[
        int | None, Meta(description="Otherwise chosen by the key, or in turn.")
    ] = None
    delay_ms: Annotated[Milliseconds | None, Meta(description="From now on.")] = None
    due_ms: Annotated[Milliseconds | None, Meta(description="In ms since 1970.")] = None


class DelayedEventOperations(DoorOperations):
    """Operations on delayed events."""

    @operation(SCHEDULE, "POST topics/{topic}/scheduled")
    def schedule(self, peer: Peer, asked: ScheduleEvent) -> None:
        """Publish an event later; return when it is durably stored."""
        if (asked.delay_ms is None) == (asked.due_ms is None):
            raise InvalidSetting("give either delay_ms or due_ms")
        due_ms = asked.due_ms
        if due_ms is None:
            due_ms = self._context.now_ms() + (asked.delay_ms or 0)
        timestamp_ms = NO_TIMESTAMP if asked.timestamp_ms is None else asked.timestamp_ms
        event = Event(asked.value, asked.key, asked.headers, timestamp_ms)
        delayed = DelayedEvent(event, due_ms, asked.topic, asked.partition)
        door = self._door(peer)
        try:
            self._store(door, delayed)
        except UnknownTopic:
            if not self._context.auto_create:
                raise
            door.create_topic(asked.topic, self._context.defaults).durable.wait()
            self._store(door, delayed)

    def _store(self, door: Door, delayed: DelayedEvent) -> None:
        found = door.publish_all((), delayed=(delayed,))
        # Topics' limits on unread events do not apply to delayed events.
        assert not isinstance(found, HeldPublish)
        found.durable.wait()
