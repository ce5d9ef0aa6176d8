"""Moves waiting events of a queue to another topic: published and settled in one append.

How this works: the events are acquired as by a consumer, so no other consumer gets them, and
released if they cannot be published. If a crash comes before the append, they are in their queue;
if it comes after, they are at their destination; there is no state in between.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from secrets import token_hex

from mainstem.broker.door import (
    Delivery,
    Door,
    HeldPublish,
    Order,
    Outcome,
    QueueSettings,
    QueueSettlements,
    Settlement,
    TopicEvents,
)
from mainstem.core.errors import InvalidSetting
from mainstem.core.event import NO_TIMESTAMP, Event
from mainstem.core.names import check_topic

MAX_EVENTS = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes per append, unless a single event is larger."""
_PRIORITY = "priority"
_MAX_DIGITS = 3


def move_events(
    door: Door, topic: str, name: str, to: str, limit: int, now_ms: Callable[[], int]
) -> int:
    """Move the first waiting events of a queue, at most ``limit``, in one append.

    Moves fewer if more do not fit into one append. Returns the number when the move is durable; 0
    if no events wait. Waits while a destination with backpressure is full. Raises Overloaded and
    other errors of publishing; then nothing was moved.
    """
    check_topic(to)
    if topic == to:
        raise InvalidSetting(f"the events of queue {name!r} are in topic {to!r} already")
    level_of = _levels(door, to)
    owner = f"move-{token_hex(8)}"
    taken = door.queues.acquire(
        topic,
        name,
        owner,
        max_events=min(limit, MAX_EVENTS),
        max_bytes=MAX_BYTES,
        locked=False,
    )
    if not taken:
        return 0
    acks = [Settlement(*each.event.position, Outcome.ACK, each.lease) for each in taken]
    settled = [QueueSettlements(topic, name, owner, acks)]
    try:
        entries = list(_entries(taken, to, level_of, _settings(door, to)))
        published = door.publish_all(entries, settled)
        while isinstance(published, HeldPublish):
            left_ms = max(0, published.until_ms - now_ms())
            if not published.room.wait(left_ms / 1000):
                # At the last attempt a topic that is still full refuses the events.
                published = published._replace(until_ms=0)
            published = door.publish_all(entries, settled, published)
    except BaseException:
        door.queues.leave(topic, name, owner)
        raise
    published.durable.wait()
    return len(taken)


def _settings(door: Door, to: str) -> QueueSettings | None:
    """Return the settings of the queue named like its topic ``to``, as AMQP's are, or None."""
    return door.queues.settings(to, to)


def _levels(door: Door, to: str) -> Callable[[Event], int | None]:
    """Return a function that returns the partition for an event, None if its key decides.

    In queues with priorities, each priority has a partition.
    """
    most, settings = len(door.topic(to).partitions) - 1, _settings(door, to)
    if settings is None or settings.order is not Order.PRIORITY:
        return lambda _: None
    return lambda event: min(_priority(event), most)


def _priority(event: Event) -> int:
    text = dict(event.headers).get(_PRIORITY) or b""
    return int(text) if text.isdigit() and len(text) <= _MAX_DIGITS else 0


def _entries(
    taken: Sequence[Delivery],
    to: str,
    level_of: Callable[[Event], int | None],
    settings: QueueSettings | None,
) -> Iterator[TopicEvents]:
    # AMQP's time to live starts when an event enters a queue.
    is_renewed = settings is not None and settings.ttl_ms is not None
    moved = [_moved(each.event, is_renewed=is_renewed) for each in taken]
    for partition, events in groupby(moved, level_of):
        yield TopicEvents(to, list(events), partition)


def _moved(event: Event, *, is_renewed: bool) -> Event:
    """Return the event to publish; with ``is_renewed`` its time to live starts again."""
    timestamp_ms = NO_TIMESTAMP if is_renewed else event.timestamp_ms
    return Event(event.value, event.key, event.headers, timestamp_ms)
