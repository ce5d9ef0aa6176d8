"""Record batches that were unpacked lately, for events of theirs that are delivered one by one.

How this works: a batch is known by its whole header, which is read again from the log each time:
its checksum, offsets and epoch are others once the log was cut there, compacted or written anew. So
nothing needs to be told here, and nothing is given that the log does not hold any more.
"""

from collections.abc import Mapping

from mainstem.core.batch import HEADER_SIZE
from mainstem.core.event import Event
from mainstem.log.port import PartitionId, Slice

MAX_BYTES = 32 * 1024 * 1024
"""What is kept for all queues together; the last batch is kept whatever its size."""
_EVENT_BYTES, _HEADER_BYTES = 300, 150
"""What an event takes beside its key and value, and a header beside its name and value."""

Head = tuple[PartitionId, bytes]


class BatchCache:
    """The events of batches by partition and header; used under the queues' lock."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[Head, tuple[Mapping[int, Event], int]] = {}
        self.size_bytes = 0
        """What the batches that are kept take, about."""

    def __len__(self) -> int:
        """Return how many batches are kept."""
        return len(self._kept)

    def get(self, head: Head) -> Mapping[int, Event] | None:
        """Return a batch, None if it is not kept."""
        kept = self._kept.pop(head, None)
        if kept is None:
            return None
        # Those that were used last are the last to go.
        self._kept[head] = kept
        return kept[0]

    def keep(self, head: Head, batch: Mapping[int, Event]) -> None:
        """Keep a batch, and let go of others that nobody used for longest."""
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
