"""Scheduled events over the network: stored on a server through its admin port."""

import msgspec

from mainstem.client.connected.admin_api import NoSuchPage, NotThere, change_at
from mainstem.client.due_times import DueTime
from mainstem.core.errors import UnknownTopic, Unsupported
from mainstem.core.event import NO_TIMESTAMP, Event
from mainstem.heads.admin.settings import MAX_BODY_BYTES
from mainstem.node.api.delayed_events import SCHEDULE, ScheduleEvent
from mainstem.remote.admin import Admin
from mainstem.remote.admin_address import admin_port


def store(
    administration: Admin, topic: str, event: Event, due: DueTime, partition: int | None
) -> None:
    """Store an event on the server, which will publish it when it is due.

    Raises UnknownTopic, and Unsupported if the server is not mainstem, or the event is too large.
    """
    # Send a delay as such, to count from when the server gets it, because clocks differ.
    is_delay, ms = due.at is None, due.to_ms(0)
    asked = ScheduleEvent(
        topic,
        event.value,
        event.key,
        event.headers,
        None if event.timestamp_ms == NO_TIMESTAMP else event.timestamp_ms,
        partition,
        delay_ms=ms if is_delay else None,
        # A time before 1970 is sent as 0, which is due at once.
        due_ms=None if is_delay else max(0, ms),
    )
    size = len(msgspec.json.encode(asked))
    if size > MAX_BODY_BYTES:
        raise Unsupported(
            f"over the network a scheduled event may have {MAX_BODY_BYTES} bytes as JSON, and this "
            f"one has {size}: use mainstem.open, or AMQP (x-delayed-message)"
        )
    cluster = administration.cluster
    port = admin_port(administration)
    try:
        change_at(port, cluster.timeout_s, SCHEDULE, asked, type(None))
    except NoSuchPage:
        raise Unsupported(
            f"the server at {cluster.address} is an older one, which cannot delay events"
        ) from None
    except NotThere:
        raise UnknownTopic(topic) from None
