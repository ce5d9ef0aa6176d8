"""Reads the numbers and fields of MariaDB's binary formats from bytes."""

from collections.abc import Sequence

from mainstem.connectors.errors import SourceFailed


class Reader:
    """Bytes with a position: every method reads the next ones and moves on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def has_more(self) -> bool:
        """Return whether any bytes are left."""
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes; raises SourceFailed if fewer are left."""
        end = self._at + size
        if end > len(self._data):
            raise SourceFailed(f"binlog: an event ends after {len(self._data)} bytes, not {end}")
        found = self._data[self._at : end]
        self._at = end
        return found

    def rest(self) -> bytes:
        """Return everything that is left."""
        return self.take(len(self._data) - self._at)

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def number(self, size: int) -> int:
        """Return a little-endian number of ``size`` bytes."""
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """Return a length-encoded integer of MariaDB's protocol."""
        first = self.byte()
        if first < 251:
            return first
        return self.number({252: 2, 253: 3}.get(first, 8))

    def bits(self, count: int) -> Sequence[bool]:
        """Return ``count`` bits, of each byte the lowest first."""
        data = self.take((count + 7) // 8)
        return [bool(data[place // 8] >> place % 8 & 1) for place in range(count)]
