"""The sparse index of a segment: blocks of batches by offset, position or time, with checksums.

A block is a run of whole batches of at least BLOCK_BYTES. Its entry holds the offset and position
of its first batch, its newest timestamp, and a checksum over the headers of its batches. The
headers hold what Kafka's CRC does not cover (base offset and leader epoch), and the fields by which
a batch is found or skipped before its CRC is checked (last offset, newest timestamp): a flipped bit
there would otherwise go unnoticed. The last block is open until it is large enough; it is stored in
the manifest, closed ones in the ``.idx`` file.
"""

import struct
from array import array
from bisect import bisect_right

import msgspec

from mainstem.core.batch import HEADER_SIZE, Buffer
from mainstem.core.checksum import crc32c

BLOCK_BYTES = 16 * 1024
COVERED = HEADER_SIZE

_ENTRY = struct.Struct(">qqIII")
ENTRY_SIZE = _ENTRY.size


class OpenBlock(msgspec.Struct, frozen=True, array_like=True):
    """The last block of a segment, which still grows, as the manifest stores it."""

    offset: int
    position: int
    newest_ms: int
    check: int


class Index:
    """The index of one segment: its blocks, in order."""

    __slots__ = (
        "checks",
        "full",
        "newest",
        "offsets",
        "open_check",
        "open_newest",
        "open_position",
        "positions",
        "trusted",
    )

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("I")
        self.newest = array("q")
        self.checks = array("I")
        """The checksums of the closed blocks: one fewer than there are blocks."""
        self.trusted = bytearray()
        """1 for each block that was written or verified by this process."""
        self.open_position = 0
        self.open_check = 0
        self.open_newest = -1
        self.full = False
        """Whether the next batch must begin a new block, whatever the size of the open one."""

    def add(self, offset: int, position: int, newest_ms: int, head: Buffer) -> None:
        """Add a batch written at ``position``; ``head`` is its header."""
        if position - self.open_position >= BLOCK_BYTES or self.full or not self.offsets:
            if self.offsets:
                self._close()
            self._begin(offset, position)
        self.open_check = crc32c(head, self.open_check)
        self.open_newest = max(self.open_newest, newest_ms)

    def _begin(self, offset: int, position: int) -> None:
        self.offsets.append(offset)
        self.positions.append(position)
        self.trusted.append(1)
        self.open_position, self.open_check, self.open_newest = position, 0, -1
        self.full = False

    def _close(self) -> None:
        self.newest.append(self.open_newest)
        self.checks.append(self.open_check)

    def block_of(self, offset: int) -> int:
        """Return the number of the last block that begins at or before ``offset``."""
        return max(bisect_right(self.offsets, offset) - 1, 0)

    def block_at(self, position: int) -> int:
        """Return the number of the last block that begins at or before ``position``."""
        return max(bisect_right(self.positions, position) - 1, 0)

    def check_of(self, block: int) -> int:
        """Return the stored checksum of a block."""
        return self.checks[block] if block < len(self.checks) else self.open_check

    def newest_of(self, block: int) -> int:
        """Return the newest timestamp in a block."""
        return self.newest[block] if block < len(self.newest) else self.open_newest

    @property
    def closed(self) -> int:
        """The number of closed blocks."""
        return len(self.checks)

    def in_order(self) -> bool:
        """Tell whether the index is plausible: positions and offsets increase, from byte 0 on."""
        steps = zip(self.positions, self.positions[1:], strict=False)
        jumps = zip(self.offsets, self.offsets[1:], strict=False)
        return (
            (not self.positions or self.positions[0] == 0)
            and all(left < right for left, right in steps)
            and all(left < right for left, right in jumps)
        )

    def open_block(self) -> OpenBlock | None:
        """Return the open block for the manifest."""
        if not self.offsets:
            return None
        return OpenBlock(self.offsets[-1], self.open_position, self.open_newest, self.open_check)

    def encode(self, first: int, last: int) -> bytes:
        """Encode closed blocks ``first`` to ``last`` (exclusive) as entries of the index file."""
        parts = []
        for block in range(first, last):
            entry = _ENTRY.pack(
                self.offsets[block],
                self.newest[block],
                self.positions[block],
                self.checks[block],
                0,
            )
            parts.append(entry[:-4] + crc32c(entry[:-4]).to_bytes(4, "big"))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, open_block: OpenBlock | None) -> "Index | None":
        """Decode an index file's entries, not verified yet; None if damaged or out of order."""
        if len(data) % ENTRY_SIZE:
            return None
        index = cls()
        for start in range(0, len(data), ENTRY_SIZE):
            entry = data[start : start + ENTRY_SIZE]
            offset, newest, position, check, own = _ENTRY.unpack(entry)
            if crc32c(entry[:-4]) != own:
                return None
            index.offsets.append(offset)
            index.newest.append(newest)
            index.positions.append(position)
            index.checks.append(check)
        if open_block is not None:
            index.offsets.append(open_block.offset)
            index.positions.append(open_block.position)
            index.open_position = open_block.position
            index.open_check = open_block.check
            index.open_newest = open_block.newest_ms
        index.trusted = bytearray(len(index.offsets))
        return index if index.in_order() else None
