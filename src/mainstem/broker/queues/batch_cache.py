"""Cache of decoded record batches, used while their events are delivered one by one.

How this works: the cache key is the batch's whole header, which is read again from the log on each
lookup. Truncation, compaction or a rewrite of the log changes the header's checksum, offsets or
epoch. So the cache needs no invalidation and never returns an event that the log no longer has.
"""

from collections.abc import Mapping

from mainstem.core.batch import HEADER_SIZE
from mainstem.core.event import Event
from mainstem.log.port import PartitionId, Slice

MAX_BYTES = 32 * 1024 * 1024
"""Limit for the caches of all queues together; the latest batch is kept whatever its size."""
_EVENT_BYTES, _HEADER_BYTES = 300, 150
"""Estimated memory per event besides its key and value, and per header besides name and value."""

Head = tuple[PartitionId, bytes]


class BatchCache:
    """Caches decoded batches by partition and batch header; used under the queues' lock."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[Head, tuple[Mapping[int, Event], int]] = {}
        self.size_bytes = 0
        """Approximate memory used by the cached batches."""

    def __len__(self) -> int:
        """Return the number of cached batches."""
        return len(self._kept)

    def get(self, head: Head) -> Mapping[int, Event] | None:
        """Return a cached batch, or None."""
        kept = self._kept.pop(head, None)
        if kept is None:
            return None
        # Moves the batch to the end, so that the least recently used one is evicted first.
        self._kept[head] = kept
        return kept[0]

    def keep(self, head: Head, batch: Mapping[int, Event]) -> None:
        """Cache a batch; evict the least recently used ones over the limit."""
        size = sum(map(_size, batch.values()))
        self._kept[head] = (batch, size)
        self.size_bytes += size
        while self.size_bytes > self._max_bytes and len(self._kept) > 1:
            self.size_bytes -= self._kept.pop(next(iter(self._kept)))[1]


def _size(event: Event) -> int:
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in event.headers)
    return _EVENT_BYTES + len(event.key or b"") + len(event.value or b"") + headers


def header_of(stored: Slice) -> bytes:
    """Return the header of the first batch of a slice, without reading the rest of it."""
    length = min(stored.length, HEADER_SIZE)
    head = Slice(length, stored.data[:length], stored.file, stored.position)
    return bytes(head.tobytes())
