"""Limits on the events waiting in a queue: their age, number and bytes.

How this works: waiting events are checked from the oldest on, and the check stops at the first that
is within the limits. As in RabbitMQ, an event expires only at the head of its queue: events behind
it wait, even if their time to live is shorter. Also as in RabbitMQ, an event reaches a consumer
that waited for it, however short its time to live: such events expire ``AWAITED_MS`` later. If
bytes are limited, each event's size is counted once, when it is appended.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.reader import PartitionReader
from mainstem.broker.queues.records import Cause, QueueSettings
from mainstem.core.event import Event

MAX_AT_ONCE = 1_000
"""At most this many events are removed in one call, so that other queues get their turn."""
AWAITED_MS = 1_000
"""Time for an event to reach a consumer that waited for it: to be committed, and delivered."""
_MAX_DIGITS = 15

Found = tuple[int, Event, Cause]


class WaitingBytes:
    """Counts the bytes of values that were never delivered."""

    def __init__(self) -> None:
        self._sizes: dict[int, deque[tuple[int, int]]] = {}
        """Offset and size of each waiting event, by partition."""
        self._counted_to: dict[int, int] = {}
        self._bytes = 0

    def count(
        self, windows: Mapping[int, Window], reader: Callable[[int, int], PartitionReader]
    ) -> int:
        """Return the bytes of waiting events; reads only events appended since the last call."""
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
        return self._bytes


class WaitingLimits:
    """Finds the waiting events that exceed a queue's limits."""

    def __init__(self, settings: QueueSettings, waiting_bytes: WaitingBytes) -> None:
        self.settings = settings
        self._waiting_bytes = waiting_bytes

    def has_expired(
        self, windows: Mapping[int, Window], heads: Mapping[int, Event | None], now_ms: int
    ) -> bool:
        """Set the windows' ``head_ms`` from their oldest waiting events.

        Return whether one expired.
        """
        for number, window in windows.items():
            head = heads[number]
            window.head_ms = None if head is None else expiry_ms(self.settings, head, window)
        return any(each.head_ms is not None and each.head_ms <= now_ms for each in windows.values())

    def over(
        self,
        windows: Mapping[int, Window],
        tails: Mapping[int, int],
        waiting: Mapping[int, Iterator[Event]],
        reader: Callable[[int, int], PartitionReader],
        now_ms: int,
    ) -> Iterator[Found]:
        """Yield events beyond the limits, each with its partition and the cause.

        Low partitions come first, which with ``order=priority`` hold the events of low priority.
        Sets ``head_ms`` of each window, the time at which its oldest event expires.
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
                    expires_ms = expiry_ms(self.settings, event, window)
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
        return 0 if limit is None else self._waiting_bytes.count(windows, reader) - limit


def expiry_ms(settings: QueueSettings, event: Event, window: Window) -> int | None:
    """Return when a waiting event expires, in wall-clock time; None if never."""
    ttl_ms = settings.ttl_ms
    if name := settings.ttl_header:
        for header, value in event.headers:
            if header == name and value is not None and value.isdigit():
                own_ms = int(value[:_MAX_DIGITS])
                ttl_ms = own_ms if ttl_ms is None else min(ttl_ms, own_ms)
    if ttl_ms is None:
        return None
    return event.timestamp_ms + ttl_ms + AWAITED_MS * window.is_awaited(event.offset)
