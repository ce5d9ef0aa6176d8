"""Limits on what waits in a queue: how long, how many events, how many bytes.

How this works: events are looked at from the oldest on, and only as far as they are dead. One that
is not keeps those behind it, even if they would have less time: as in RabbitMQ an event expires at
the head of its queue. Where bytes are limited, sizes are counted once, as events are appended.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.reader import PartitionReader
from mainstem.broker.queues.records import Cause, QueueSettings
from mainstem.core.event import Event

MAX_AT_ONCE = 1_000
"""So many are taken out before others get their turn."""
_MAX_DIGITS = 15

Found = tuple[int, Event, Cause]


class WaitingLimits:
    """Tells which of the events that wait are dead."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self._sizes: dict[int, deque[tuple[int, int]]] = {}
        """Offsets and sizes of the events that wait, by partition."""
        self._counted_to: dict[int, int] = {}
        self._bytes = 0

    def over(
        self,
        windows: Mapping[int, Window],
        tails: Mapping[int, int],
        waiting: Mapping[int, Iterator[Event]],
        reader: Callable[[int, int], PartitionReader],
        now_ms: int,
    ) -> Iterator[Found]:
        """Yield events that are dead, each with its partition and why.

        Partitions of low priority come first. Says of each window when its head expires.
        """
        count = 0
        events = self._excess_events(windows, tails)
        excess_bytes = self._excess_bytes(windows, reader)
        for number, window in sorted(windows.items()):
            window.head_ms = None
            for event in waiting[number]:
                if events > 0 or excess_bytes > 0:
                    cause = Cause.LENGTH
                    events -= 1
                    excess_bytes -= len(event.value or b"")
                else:
                    expires_ms = expiry_ms(self.settings, event)
                    if expires_ms is None or expires_ms > now_ms:
                        window.head_ms = expires_ms
                        break
                    cause = Cause.EXPIRED
                count += 1
                if count > MAX_AT_ONCE:
                    window.head_ms = now_ms
                    return
                yield number, event, cause

    def _excess_events(self, windows: Mapping[int, Window], tails: Mapping[int, int]) -> int:
        limit = self.settings.max_length
        if limit is None:
            return 0
        waits = sum(
            max(0, tails[at] - window.next) + len(window.entries) - window.out
            for at, window in windows.items()
        )
        return waits - limit

    def _excess_bytes(
        self, windows: Mapping[int, Window], reader: Callable[[int, int], PartitionReader]
    ) -> int:
        limit = self.settings.max_bytes
        if limit is None:
            return 0
        for number, window in windows.items():
            sizes = self._sizes.setdefault(number, deque())
            while sizes and sizes[0][0] < window.next:
                self._bytes -= sizes.popleft()[1]
            ahead = reader(number, max(window.next, self._counted_to.get(number, 0)))
            while (event := ahead.take()) is not None:
                size = len(event.value or b"")
                sizes.append((event.offset, size))
                self._bytes += size
            self._counted_to[number] = ahead.offset
        return self._bytes - limit


def expiry_ms(settings: QueueSettings, event: Event) -> int | None:
    """Return when an event is dead, on the time of day; None if never."""
    ttl_ms = settings.ttl_ms
    if name := settings.ttl_header:
        for header, value in event.headers:
            if header == name and value is not None and value.isdigit():
                own_ms = int(value[:_MAX_DIGITS])
                ttl_ms = own_ms if ttl_ms is None else min(ttl_ms, own_ms)
    return None if ttl_ms is None else event.timestamp_ms + ttl_ms
