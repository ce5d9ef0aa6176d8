"""Where a subscriber's cursor is, although a subscriber acknowledges nothing.

How this works: the kernel tells how many sent bytes the peer's TCP has not acknowledged. Events
before these have reached the peer's host, but the last ones may be in the buffer of its socket, and
are lost if its process ends. So the cursor stays ``repeat`` events behind what TCP has
acknowledged, and a subscriber that connects again gets these events again.
"""

from collections import deque


class Progress:
    """Computes the cursors of one connection of a subscriber."""

    def __init__(self, repeat: int) -> None:
        self._repeat = repeat
        self._bytes = 0
        self._sent = deque[tuple[int, int, int]]()
        """Events that TCP has not acknowledged: number of bytes sent up to its end, partition, next
        offset.
        """
        self._arrived = deque[tuple[int, int]]()
        """The last ``repeat`` events that TCP has acknowledged: partition, next offset."""
        self._moved: dict[int, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether events are unacknowledged, or ``take`` would return a cursor."""
        return bool(self._sent or self._moved)

    def sent_header(self, size: int) -> None:
        """Record that bytes were sent that belong to no event."""
        self._bytes += size

    def sent(self, partition: int, offset: int, size: int) -> None:
        """Record that an event was sent, as ``size`` bytes."""
        self._bytes += size
        self._sent.append((self._bytes, partition, offset + 1))

    def acknowledged(self, unacknowledged: int) -> None:
        """Record how many of the sent bytes TCP has not acknowledged."""
        until = self._bytes - unacknowledged
        while self._sent and self._sent[0][0] <= until:
            _, partition, behind = self._sent.popleft()
            self._arrived.append((partition, behind))
            if len(self._arrived) > self._repeat:
                partition, behind = self._arrived.popleft()
                self._moved[partition] = behind

    def take(self) -> dict[int, int]:
        """Return the cursors, by partition, that have moved since the last call."""
        moved, self._moved = self._moved, {}
        return moved
