"""Queues of a log in this process: open, list, show, peek, purge, move, delete."""

import uuid
from collections.abc import Callable, Mapping

import msgspec

from mainstem.broker.door import (
    MAX_DELIVERIES,
    MAX_LOCK_MS,
    Door,
    QueueSettings,
)
from mainstem.client.checks import check_limit, milliseconds
from mainstem.client.embedded.queue_consumer import QueueConsumer
from mainstem.client.embedded.start_positions import offset_of
from mainstem.client.info import QueuedEvent, QueueInfo
from mainstem.client.queue_info import queue_info
from mainstem.client.queue_options import QueueOptions, limits_of
from mainstem.client.start_positions import check_start
from mainstem.core.errors import InvalidName, InvalidSetting, UnknownPartition
from mainstem.core.event import Position
from mainstem.node.queue_move import move_events


class EmbeddedQueues:
    """Implements ``Queues`` on the broker of this process."""

    def __init__(
        self,
        broker: Door,
        now_ms: Callable[[], int],
        check_open: Callable[[], None],
        *,
        after_crash: bool,
    ) -> None:
        self._broker, self._now_ms = broker, now_ms
        self._check_open, self._after_crash = check_open, after_crash

    def open(self, options: QueueOptions) -> QueueConsumer:
        """Join a queue, creating it if necessary; sets the settings that ``options`` gives."""
        topic, name, start = options.topic, options.name, options.start
        if not isinstance(name, str):
            raise InvalidName("queue", name, "it is not text")
        check_start(start)
        numbers = range(len(self._broker.topic(topic).partitions))
        for number in start if isinstance(start, Mapping) else ():
            if number not in numbers:
                raise UnknownPartition(topic, number, len(numbers))
        was = self._broker.queues.created_with(topic, name)
        settings = _altered(was or QueueSettings(), options)
        if settings != was:
            starts = (
                {} if was else {at: offset_of(self._broker, topic, at, start) for at in numbers}
            )
            self._broker.queues.create(topic, name, settings, starts).wait()
        consumer = f"{name}-{uuid.uuid4().hex[:12]}"
        return QueueConsumer(self._broker, topic, name, consumer, after_crash=self._after_crash)

    def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, sorted by topic and name."""
        self._check_open()
        return tuple(queue_info(each) for each in self._broker.queues.every())

    def show(self, topic: str, name: str) -> QueueInfo:
        """Return the settings, consumers and state of one queue."""
        self._check_open()
        return queue_info(self._broker.queues.show(topic, name))

    def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first unsettled events (after ``after``, if given) without delivering them."""
        self._check_open()
        check_limit(limit)
        found = self._broker.queues.peek(topic, name, limit, after)
        return tuple(QueuedEvent(*each) for each in found)

    def purge(self, topic: str, name: str) -> int:
        """Settle all events that no consumer has, so that none gets them; return their number."""
        self._check_open()
        count, durable = self._broker.queues.purge(topic, name)
        durable.wait()
        return count

    def move(self, topic: str, name: str, to: str, *, limit: int = 1000) -> int:
        """Move up to ``limit`` waiting events to another topic in one append; return the number."""
        self._check_open()
        check_limit(limit)
        return move_events(self._broker, topic, name, to, limit, self._now_ms)

    def delete(self, topic: str, name: str) -> None:
        """Delete a queue; its events stay in the topic, unless AMQP created the topic for it."""
        self._check_open()
        self._broker.queues.delete(topic, name).wait()


def _altered(was: QueueSettings, options: QueueOptions) -> QueueSettings:
    max_deliveries, lock_s = options.max_deliveries, options.lock_s
    changes: dict[str, object] = {}
    if max_deliveries is not None:
        if not isinstance(max_deliveries, int) or not 0 <= max_deliveries <= MAX_DELIVERIES:
            raise InvalidSetting(
                f"max_deliveries must be 1 to {MAX_DELIVERIES}, or 0 to try for ever, "
                f"not {max_deliveries!r:.300}"
            )
        changes["max_deliveries"] = max_deliveries or None
    if lock_s is not None:
        lock_ms = milliseconds(lock_s, "lock_s")
        if not 1 <= lock_ms <= MAX_LOCK_MS:
            most = MAX_LOCK_MS // 1000
            raise InvalidSetting(f"lock_s must be 0.001 to {most} seconds, not {lock_s}")
        changes["lock_ms"] = lock_ms
    if options.order is not None:
        changes["order"] = options.order
    changes |= limits_of(options)
    merged = {name: getattr(was, name) for name in was.__struct_fields__} | changes
    try:
        settings = msgspec.convert(merged, QueueSettings)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"a queue cannot be like this: {error}") from None
    settings.check()
    return settings
