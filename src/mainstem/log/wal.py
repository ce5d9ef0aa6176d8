"""The write-ahead log: one file that all partitions share, so that one sync commits them all.

How this works: entries are collected in memory and written by ``flush`` in one go, followed by
zeros that mark the end; whoever needs them durable syncs the file afterwards. Every entry carries a
sequence number that grows by one, so that a missing one is noticed. Space is reserved before an
entry is accepted, hence a full disk refuses a request while it is still being decided, never when
it is being committed.

Files are used again without clearing them. Each use has a number of its own that nobody can guess
(the salt, in the file's name), and the checksum of an entry begins with it and with the entry's
position. So neither what is left of an earlier use, nor an event that looks like an entry, nor a
copy of an entry in an event is ever taken for one.

Applying an entry twice gives the same as once: an appended batch says where in which segment its
bytes belong. That lets recovery write every entry since the checkpoint again without asking what
of it had reached the segment.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from mainstem.core.checksum import crc32c
from mainstem.core.errors import FormatTooNew
from mainstem.log.files import Buffer, Files, OpenFile

DIRECTORY = "wal"

_FRAME = struct.Struct(">IIIxxxBQ")
_MAGIC = 0x6D737431
_MAGIC_BYTES = _MAGIC.to_bytes(4, "big")
_CHECKED_FROM = 12
PART_OVERHEAD = 64
"""More than a part, its entry and its frame add to a batch."""
_PART = struct.Struct(">20sqII?I")
_COUNT = struct.Struct(">H")
_MANY = 0xFFFF
_LARGE_COUNT = struct.Struct(">I")
"""Follows a count that says so."""
_CHECK = struct.Struct(">I")
_CHECK_AT = 8
_ONE_PART = struct.Struct(">IIIxxxBQH20sqII?I")
"""Frame, count and part of an APPEND entry with a single part, which is nearly every entry."""


class Kind(IntEnum):
    """What an entry says."""

    APPEND = 1
    """Batches, each with its partition, segment and position: all of them or none."""
    TOUCH = 2
    """A partition is being written without its batches being in this log."""
    ENSURE = 3
    """A partition exists, with these settings."""
    DELETE = 4
    """Partitions are gone."""
    CUT = 5
    """A partition begins later."""
    REPLACE = 6
    """Segments were replaced by others: this is the partition's recovery point from now on."""
    OPENED = 7
    """A process is about to append; whatever it leaves behind, its end was not clean."""


_END = bytes(_FRAME.size)
"""What follows the last entry; space for it is part of every reservation."""
_KEPT = 1024 * 1024
_UNNAMED = f"{DIRECTORY}/next"
_KINDS = frozenset(Kind)
_APPEND = int(Kind.APPEND)


class Part(NamedTuple):
    """One batch of an APPEND entry, or several that follow one another and stand for themselves."""

    key: bytes
    """Topic id (16 bytes) and partition number (4 bytes)."""
    base: int
    """The segment's base offset."""
    generation: int
    position: int
    synced: bool
    """Whether it was promised to survive a power cut."""
    batch: Buffer


class Entry(NamedTuple):
    """One entry as it was read back."""

    kind: Kind
    payload: memoryview
    sequence: int


class WalFile(NamedTuple):
    """A write-ahead file by its name."""

    number: int
    salt: int

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{DIRECTORY}/{self.number:010d}-{self.salt:08x}.wal"


def listed(files: Files) -> list[WalFile]:
    """Return the write-ahead files that are there, the oldest first."""
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
    """The file being written; its methods are called under the log's lock."""

    def __init__(self, place: WalFile, file: OpenFile, sequence: int, step_bytes: int) -> None:
        self._step_bytes = step_bytes
        self._salt = place.salt
        self.number = place.number
        self.sequence = sequence
        """The number that the next entry gets."""
        self.file = file
        self.written = 0
        """Bytes of whole entries in the file."""
        self.opened = False
        """Whether the file says durably that somebody is appending."""
        self._allocated = self.file.size()
        self._pending: list[Buffer] = []
        self.pending_bytes = 0
        """Bytes that wait to be written."""

    @property
    def pending(self) -> bool:
        """Whether entries wait to be written."""
        return bool(self._pending)

    @property
    def used(self) -> int:
        """Bytes written or waiting to be."""
        return self.written + self.pending_bytes

    def reserve(self, length: int) -> None:
        """Make sure of the space for entries of ``length`` payload bytes; raises OSError if not."""
        wanted = self.used + length + 2 * _FRAME.size
        if wanted > self._allocated:
            # Growing by half keeps a burst from asking for space again and again.
            step = max(self._step_bytes, self._allocated // 2, wanted - self._allocated)
            self.file.allocate(self._allocated, step)
            self._allocated += step

    def add(self, kind: Kind, pieces: Sequence[Buffer]) -> None:
        """Take an entry, to be written by the next flush; its space must have been reserved."""
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
        """Take an APPEND entry of one part: the bytes that ``add`` makes, but quicker."""
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
        """Write what was taken, in one go; it survives the process now, but not a power cut."""
        if self._pending:
            self.file.pwrite(b"".join((*self._pending, _END)), self.written)
            self.written += self.pending_bytes
            self._pending, self.pending_bytes = [], 0

    def switch(self, place: WalFile, file: OpenFile) -> None:
        """Go on in a file that was prepared; everything taken so far must have been flushed."""
        self.number, self._salt = place
        self.file = file
        self.written = 0
        self.opened = False
        self._allocated = file.size()


def prepare(files: Files, number: int, recycled: str | None) -> tuple[WalFile, OpenFile]:
    """Make the next file, out of an old one if there is one, and make its name durable."""
    place = WalFile(number, files.salt())
    source = recycled or _UNNAMED
    unnamed = files.open(source, create=recycled is None)
    # Durable before it gets its name: a file that does not even hold an end was damaged.
    unnamed.pwrite(_END, 0)
    unnamed.sync()
    files.rename(source, place.path)
    file = files.open(place.path)
    files.sync_dir(DIRECTORY)
    return place, file


def sync(files: Files, first_number: int) -> None:
    """Make every entry since the checkpoint durable."""
    for place in listed(files):
        if place.number >= first_number:
            files.open(place.path).sync()


class Scan(NamedTuple):
    """What was read back from the write-ahead log."""

    entries: list[Entry]
    last: WalFile | None
    """The newest file there is."""
    next_sequence: int
    lost: list["Lost"]
    """What is missing in the middle, or perhaps at the end."""


class Lost(NamedTuple):
    """A stretch that holds no entry, though it should."""

    place: str
    problem: str
    data: bytes


def first_sequence(files: Files, place: WalFile) -> int:
    """Return the number of a file's first entry, 1 if it has none."""
    file = files.open(place.path)
    entry = _entry_at(memoryview(file.pread(file.size(), 0)), 0, place.salt)
    return 1 if entry is None else entry.sequence


def scan(files: Files, first_number: int, first_sequence: int) -> Scan:
    """Read every entry since the checkpoint; what follows a damaged one is read too, and told."""
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
            # How far it reached cannot be told: what follows may be left of an earlier use.
            lost.append(_lost(place, position, problem, data[position : position + _KEPT]))
    if not places and first_number > 0:
        lost.append(Lost(DIRECTORY, f"there is no file from number {first_number} on", b""))
    return Scan(entries, places[-1] if places else None, expected, lost)


def _lost(place: WalFile, position: int, problem: str, data: memoryview) -> Lost:
    return Lost(f"{place.path} at byte {position}", problem, bytes(data).rstrip(b"\0"))


def _is_end(data: memoryview, position: int) -> bool:
    """Tell whether the entries end here as they were meant to, and not by damage."""
    return data[position : position + len(_END)] == _END


def _next_entry(data: memoryview, position: int, salt: int) -> tuple[int, Entry] | None:
    """Return the next entry, and where it is; damage is passed over, the end is not."""
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
