"""Publishing many events: large batches per partition, many of them in flight at once.

Events are collected per partition until a batch is large, and appended without waiting for the
disk; when more than ``pending_bytes`` are in flight, the publisher waits for the oldest batch. So
memory is bounded, and the disk is always busy.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.broker.door import Door, Durable, HeldPublish
from mainstem.core.event import Event
from mainstem.core.partitioner import partition_for

_EVENT_BYTES = 150
"""The estimated overhead of an event in bytes, in memory and in the batch."""


class Wait(NamedTuple):
    """What the caller must wait for: durability of a batch, or space in a full topic.

    For space, wait at most until ``until_ms``.
    """

    durable: Durable
    until_ms: int | None = None


class Bulk:
    """A bulk publish to one topic; it never waits, but tells its caller what to wait for."""

    def __init__(
        self,
        broker: Door,
        topic: str,
        partition: int | None,
        *,
        batch_bytes: int,
        pending_bytes: int,
    ) -> None:
        self._broker = broker
        self._topic, self._partition = topic, partition
        self._partitions = len(broker.topic(topic).partitions)
        settings = broker.topic(topic).settings
        # The broker would split a batch over the topic's limit into a large and a small one.
        self._batch_bytes = min(batch_bytes, settings.max_batch_bytes * 3 // 4)
        # A batch as large as max_backlog could be appended only when the backlog is empty.
        self._batch_events = max(1, (settings.max_backlog or 2**32) // 4)
        self._pending_bytes = pending_bytes
        self._gathered: dict[int, list[Event]] = {}
        self._sizes: dict[int, int] = {}
        self._size = 0
        self._full: list[int] = []
        self._sticky = 0
        self._appended: deque[tuple[int, Durable]] = deque()
        self._appended_bytes = 0
        self.count = 0
        """Number of events appended so far."""

    def put(self, event: Event) -> bool:
        """Add an event; returns True if ``drain`` must be called before the next one."""
        if self._partition is not None:
            number = self._partition
        elif event.key is None:
            number = self._sticky
        else:
            number = partition_for(event.key, self._partitions)
        size = _EVENT_BYTES + len(event.value or b"") + len(event.key or b"")
        if event.headers:
            size += sum(20 + len(name) + len(value or b"") for name, value in event.headers)
        gathered = self._gathered.get(number)
        if gathered is None:
            gathered = self._gathered[number] = []
            self._sizes[number] = 0
        gathered.append(event)
        self._size += size
        total = self._sizes[number] = self._sizes[number] + size
        if total >= self._batch_bytes or len(gathered) >= self._batch_events:
            self._full.append(number)
            if number == self._sticky:
                self._sticky = (self._sticky + 1) % self._partitions
            return True
        return self._size >= self._pending_bytes

    def drain(self) -> Iterator[Wait]:
        """Append the full batches; yields what the caller must wait for before it continues."""
        if self._size >= self._pending_bytes:
            # There are many partitions with few events each, so append all of them.
            self._full = list(self._gathered)
        for number in self._full:
            yield from self._append(number)
        self._full.clear()
        while self._appended_bytes > self._pending_bytes:
            yield self._oldest()
        while self._appended and self._appended[0][1].done:
            yield self._oldest()

    def finish(self) -> Iterator[Wait]:
        """Append all remaining events; yields what the caller must wait for before it continues."""
        self._full = list(self._gathered)
        yield from self.drain()
        while self._appended:
            yield self._oldest()

    def _append(self, number: int) -> Iterator[Wait]:
        events = self._gathered.pop(number)
        size = self._sizes.pop(number)
        self._size -= size
        answer = self._broker.try_publish(self._topic, events, number)
        while isinstance(answer, HeldPublish):
            yield Wait(answer.room, answer.until_ms)
            answer = self._broker.try_publish(self._topic, events, number, answer)
        self.count += len(events)
        self._appended.append((size, answer.durable))
        self._appended_bytes += size

    def _oldest(self) -> Wait:
        size, durable = self._appended.popleft()
        self._appended_bytes -= size
        return Wait(durable)
