"""The write-ahead log: one file shared by all partitions, so that one sync commits them all.

How this works: entries are collected in memory; ``flush`` writes them in one call, followed by
zeros that mark the end; then the group commit syncs the file. Entries have consecutive sequence
numbers, so that a missing one is noticed. Space is reserved before an entry is accepted, so a full
disk refuses an append up front and never fails a commit.

Files are reused without clearing them. Each use has a random salt (in the file's name), and the
checksum of an entry is seeded with the salt and the entry's position. So nothing else is mistaken
for an entry: neither remains of an earlier use, nor an event that looks like an entry, nor a copy
of an entry inside an event.

Applying an entry is idempotent: an appended batch says at which position of which segment its bytes
belong. So recovery writes every entry since the checkpoint again, without checking which bytes had
already reached the segment.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from mainstem.core.checksum import crc32c
from mainstem.core.errors import FormatTooNew
from mainstem.log.files.files import Buffer, Files, OpenFile

DIRECTORY = "wal"

_FRAME = struct.Struct(">IIIxxxBQ")
_MAGIC = 0x6D737431
_MAGIC_BYTES = _MAGIC.to_bytes(4, "big")
_CHECKED_FROM = 12
PART_OVERHEAD = 64
"""Upper bound of the bytes that the headers of part, entry and frame add to a batch."""
_PART = struct.Struct(">20sqII?I")
_COUNT = struct.Struct(">H")
_MANY = 0xFFFF
_LARGE_COUNT = struct.Struct(">I")
"""The real count, which follows if the count field holds _MANY."""
_CHECK = struct.Struct(">I")
_CHECK_AT = 8
_ONE_PART = struct.Struct(">IIIxxxBQH20sqII?I")
"""Frame, count and part of an APPEND entry with a single part, which is nearly every entry."""


class Kind(IntEnum):
    """The kind of a write-ahead entry."""

    APPEND = 1
    """Batches, each with its partition, segment and position: all of them or none."""
    TOUCH = 2
    """A partition is being written to, but its batches are not in this log."""
    ENSURE = 3
    """A partition exists, with these settings."""
    DELETE = 4
    """Partitions were deleted."""
    CUT = 5
    """The start offset of a partition was moved forward."""
    REPLACE = 6
    """Segments were replaced by others; the entry holds the partition's new recovery point."""
    OPENED = 7
    """A process is about to append; if the next opening finds this entry, the stop was unclean."""
    APPEND_SHARED = 8
    """Like APPEND, but a batch for several partitions is stored once (``shared_batches``)."""


_END = bytes(_FRAME.size)
"""The end mark, after the last entry; every reservation includes it."""
_KEPT = 1024 * 1024
_UNNAMED = f"{DIRECTORY}/next"
_KINDS = frozenset(Kind)
_APPEND = int(Kind.APPEND)


class Part(NamedTuple):
    """One batch of an APPEND entry, or several consecutive batches of one partition."""

    key: bytes
    """Topic id (16 bytes) and partition number (4 bytes)."""
    base: int
    """The segment's base offset."""
    generation: int
    position: int
    synced: bool
    """Whether it must survive a power cut (durability ``fsync``)."""
    batch: Buffer


class Entry(NamedTuple):
    """One entry, as read back by recovery."""

    kind: Kind
    payload: memoryview
    sequence: int


class WalFile(NamedTuple):
    """The name of a write-ahead file, in parts."""

    number: int
    salt: int

    @property
    def path(self) -> str:
        """The file's path in the data directory."""
        return f"{DIRECTORY}/{self.number:010d}-{self.salt:08x}.wal"


def listed(files: Files) -> list[WalFile]:
    """Return the existing write-ahead files, oldest first."""
    found = []
    for name in files.names(DIRECTORY):
        number, _, salt = name.removesuffix(".wal").partition("-")
        if number.isdigit() and len(salt) == 8:
            try:
                file = WalFile(int(number), int(salt, 16))
            except ValueError:
                continue
            if file.path == f"{DIRECTORY}/{name}":
                found.append(file)
    return sorted(found)


def encode_parts(parts: Sequence[Part]) -> list[Buffer]:
    """Return the payload of an APPEND entry in pieces."""
    count = len(parts)
    pieces: list[Buffer] = [_COUNT.pack(min(count, _MANY))]
    if count >= _MANY:
        pieces.append(_LARGE_COUNT.pack(count))
    for key, base, generation, position, synced, batch in parts:
        pieces.append(_PART.pack(key, base, generation, position, synced, len(batch)))
        pieces.append(bytes(batch))
    return pieces


def decode_parts(payload: memoryview) -> Iterator[Part]:
    """Yield the batches of an APPEND entry."""
    (count,) = _COUNT.unpack_from(payload)
    at = _COUNT.size
    if count == _MANY:
        (count,) = _LARGE_COUNT.unpack_from(payload, at)
        at += _LARGE_COUNT.size
    for _ in range(count):
        key, base, generation, position, synced, length = _PART.unpack_from(payload, at)
        at += _PART.size
        yield Part(key, base, generation, position, synced, payload[at : at + length])
        at += length


class WriteAheadLog:
    """The write-ahead log, with the file being written; used under the log's lock."""

    def __init__(self, place: WalFile, file: OpenFile, sequence: int, step_bytes: int) -> None:
        self._step_bytes = step_bytes
        self._salt = place.salt
        self.number = place.number
        self.sequence = sequence
        """The sequence number of the next entry."""
        self.file = file
        self.written = 0
        """Bytes of the entries that were written to the file."""
        self.opened = False
        """Whether the file holds a durable OPENED entry."""
        self.allocated = self.file.size()
        """Size of the file on disk, in bytes."""
        self._pending: list[Buffer] = []
        self.pending_bytes = 0
        """Bytes of entries not yet written."""

    @property
    def pending(self) -> bool:
        """Whether entries are waiting for the next flush."""
        return bool(self._pending)

    @property
    def used(self) -> int:
        """Bytes of all entries, written or not."""
        return self.written + self.pending_bytes

    def reserve(self, length: int) -> None:
        """Reserve space for entries of ``length`` payload bytes; raises OSError."""
        wanted = self.used + length + 2 * _FRAME.size
        if wanted > self.allocated:
            # Growing by half saves repeated allocations in a burst.
            step = max(self._step_bytes, self.allocated // 2, wanted - self.allocated)
            self.file.allocate(self.allocated, step)
            self.allocated += step

    def add(self, kind: Kind, pieces: Sequence[Buffer]) -> None:
        """Add an entry, to be written by the next flush; its space must be reserved."""
        payload = b"".join(pieces)
        frame = bytearray(_FRAME.pack(_MAGIC, len(payload), 0, kind, self.sequence))
        seed = _seed(self._salt, self.used)
        check = crc32c(payload, crc32c(memoryview(frame)[_CHECKED_FROM:], seed))
        _CHECK.pack_into(frame, _CHECK_AT, check)
        self._pending += (frame, payload)
        self.pending_bytes += len(frame) + len(payload)
        self.sequence += 1

    def add_batches(
        self, key: bytes, base: int, generation: int, position: int, batches: Buffer
    ) -> None:
        """Add an APPEND entry of one part: same bytes as ``add``, but faster."""
        size = len(batches)
        length = _COUNT.size + _PART.size + size
        place = (key, base, generation, position, True, size)
        head = bytearray(_ONE_PART.pack(_MAGIC, length, 0, _APPEND, self.sequence, 1, *place))
        seed = _seed(self._salt, self.used)
        check = crc32c(batches, crc32c(memoryview(head)[_CHECKED_FROM:], seed))
        _CHECK.pack_into(head, _CHECK_AT, check)
        self._pending += (head, bytes(batches))
        self.pending_bytes += len(head) + size
        self.sequence += 1

    def flush(self) -> None:
        """Write all added entries in one call; they survive kill -9, but not a power cut."""
        if self._pending:
            self.file.pwrite(b"".join((*self._pending, _END)), self.written)
            self.written += self.pending_bytes
            self._pending, self.pending_bytes = [], 0

    def switch(self, place: WalFile, file: OpenFile) -> None:
        """Continue in another file, made by ``prepare``; all entries must have been flushed."""
        self.number, self._salt = place
        self.file = file
        self.written = 0
        self.opened = False
        self.allocated = file.size()


def prepare(files: Files, number: int, recycled: str | None) -> tuple[WalFile, OpenFile]:
    """Create the next write-ahead file, by renaming ``recycled`` if given; durable on return."""
    place = WalFile(number, files.salt())
    source = recycled or _UNNAMED
    unnamed = files.open(source, create=recycled is None)
    # Durable before it is renamed: a file without an end mark counts as damaged.
    unnamed.pwrite(_END, 0)
    unnamed.sync()
    files.rename(source, place.path)
    file = files.open(place.path)
    files.sync_dir(DIRECTORY)
    return place, file


def sync(files: Files, first_number: int) -> None:
    """Sync all write-ahead files since the checkpoint, so that their entries are durable."""
    for place in listed(files):
        if place.number >= first_number:
            files.open(place.path).sync()


class Scan(NamedTuple):
    """The result of reading the write-ahead log."""

    entries: list[Entry]
    last: WalFile | None
    """The newest existing write-ahead file, None if there is none."""
    next_sequence: int
    lost: list["Lost"]
    """The damaged or missing parts that were found."""


class Lost(NamedTuple):
    """A damaged part of the write-ahead log."""

    place: str
    problem: str
    data: bytes


def first_sequence(files: Files, place: WalFile) -> int:
    """Return the sequence number of a file's first entry, 1 if the file has no entry."""
    file = files.open(place.path)
    entry = _entry_at(memoryview(file.pread(file.size(), 0)), 0, place.salt)
    return 1 if entry is None else entry.sequence


def scan(files: Files, first_number: int, first_sequence: int) -> Scan:
    """Read every entry since the checkpoint; reports damage, and reads on after it."""
    places = [each for each in listed(files) if each.number >= first_number]
    entries: list[Entry] = []
    expected = first_sequence
    lost: list[Lost] = []
    for place in places:
        file = files.open(place.path)
        data = memoryview(file.pread(file.size(), 0))
        position = 0
        while (found := _next_entry(data, position, place.salt)) is not None:
            at, entry = found
            if entry.sequence != expected:
                problem = f"entries {expected} to {entry.sequence - 1} are damaged or missing"
                lost.append(_lost(place, position, problem, data[position:at]))
            entries.append(entry)
            expected = entry.sequence + 1
            position = at + _FRAME.size + len(entry.payload)
        if not _is_end(data, position):
            problem = f"entry {expected} was cut off or is damaged"
            # Its length is unknown: what follows may be remains of an earlier use.
            lost.append(_lost(place, position, problem, data[position : position + _KEPT]))
    if not places and first_number > 0:
        lost.append(Lost(DIRECTORY, f"there is no file from number {first_number} on", b""))
    return Scan(entries, places[-1] if places else None, expected, lost)


def _lost(place: WalFile, position: int, problem: str, data: memoryview) -> Lost:
    return Lost(f"{place.path} at byte {position}", problem, bytes(data).rstrip(b"\0"))


def _is_end(data: memoryview, position: int) -> bool:
    """Tell whether the end mark (zeros) is at this position."""
    return data[position : position + len(_END)] == _END


def _next_entry(data: memoryview, position: int, salt: int) -> tuple[int, Entry] | None:
    """Return the next entry and its position; skips damage, stops at the end mark."""
    whole = data.obj
    assert isinstance(whole, bytes)
    at = position
    while at >= 0:
        entry = _entry_at(data, at, salt)
        if entry is not None:
            return at, entry
        if at == position and _is_end(data, at):
            return None
        at = whole.find(_MAGIC_BYTES, at + 1)
    return None


def _entry_at(data: memoryview, at: int, salt: int) -> Entry | None:
    if at + _FRAME.size > len(data):
        return None
    magic, length, check, kind, sequence = _FRAME.unpack_from(data, at)
    end = at + _FRAME.size + length
    if magic != _MAGIC or end > len(data):
        return None
    if crc32c(data[at + _CHECKED_FROM : end], _seed(salt, at)) != check:
        return None
    if kind not in _KINDS:
        raise FormatTooNew(
            f"the write-ahead log holds an entry of kind {kind}, which this version of mainstem "
            "does not know: open the directory with a newer mainstem, nothing was changed"
        )
    return Entry(Kind(kind), data[at + _FRAME.size : end], sequence)


def _seed(salt: int, position: int) -> int:
    return salt ^ (position & 0xFFFFFFFF)
