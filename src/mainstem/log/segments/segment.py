"""A segment: one append-only file of record batches, with an index.

How this works: ``size`` says where the data ends, whatever the file's length: remains of a failed
write lie beyond it and are overwritten. Writers hold the log's lock; readers do not: they get the
position up to which they may read, and bytes before it never change. A block that this process has
neither written nor verified is verified at its first read.
"""

import struct
import threading
from collections.abc import Iterator

import msgspec

from mainstem.core.batch import CHECKED_FROM, HEADER_SIZE, BatchHeader, read_header, read_span
from mainstem.core.checksum import crc32c
from mainstem.core.errors import CorruptBatch, DamagedLog
from mainstem.core.records import events
from mainstem.log.files.files import Files, OpenFile
from mainstem.log.port import Slice, TimedOffset, WritableBatch
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.index import BLOCK_BYTES, COVERED, ENTRY_SIZE, Index, OpenBlock

MAX_HINTS = 16
EMPTY = Slice(0)

_SPAN = struct.Struct(">qi11xi")
"""Base offset, batch length and last offset delta."""
_BEFORE_LENGTH = 12

_LOADING = threading.Lock()
"""Held to load an index: if two threads loaded it, the writer would extend only one copy."""


class SegmentRecord(msgspec.Struct, frozen=True, array_like=True):
    """What the manifest stores of a segment."""

    base: int
    generation: int
    size: int
    next_offset: int
    newest_ms: int
    created_ms: int
    dense: bool
    blocks: int
    open_block: OpenBlock | None


class Segment:
    """A file with the batches from ``base`` to ``next_offset``; ``dense``: no offset is missing."""

    def __init__(
        self, file_cache: FileCache, directory: str, base: int, created_ms: int, generation: int
    ) -> None:
        self._file_cache = file_cache
        name = f"{base:020d}-{generation}"
        self.path = f"{directory}/{name}.seg"
        self.index_path = f"{directory}/{name}.idx"
        self.base = base
        self.generation = generation
        self.size = 0
        self.next_offset = base
        self.newest_ms = -1
        self.created_ms = created_ms
        self.dense = True
        self._events: int | None = None
        self.sealed = False
        """Whether no more batches will be appended."""
        self.created = False
        """Whether the file exists: the first write creates it."""
        self.synced_size = 0
        """How many bytes are known to be durable."""
        self.saved_blocks = 0
        """How many closed blocks are in the index file."""
        self._index: Index | None = Index()
        self._open_block: OpenBlock | None = None
        self._ready = False
        """Whether the open block may be extended: it was verified since the segment was loaded."""
        self._hints: dict[int, int] = {}

    @classmethod
    def load(cls, file_cache: FileCache, directory: str, record: SegmentRecord) -> "Segment":
        """Create the segment from its record; reads nothing yet."""
        segment = cls(file_cache, directory, record.base, record.created_ms, record.generation)
        segment.size = record.size
        segment.next_offset = record.next_offset
        segment.newest_ms = record.newest_ms
        segment.dense = record.dense
        segment.created = record.size > 0
        segment.synced_size = record.size
        segment.saved_blocks = record.blocks
        segment._open_block = record.open_block
        if record.size > 0:
            segment._index = None
        return segment

    def record(self) -> SegmentRecord:
        """Return the record for the manifest."""
        loaded = self._index is not None
        return SegmentRecord(
            self.base,
            self.generation,
            self.size,
            self.next_offset,
            self.newest_ms,
            self.created_ms,
            self.dense,
            self.index.closed if loaded else self.saved_blocks,
            self.index.open_block() if loaded else self._open_block,
        )

    @property
    def file(self) -> OpenFile:
        """The open file."""
        return self._file_cache.get(self.path, create=not self.created)

    @property
    def index(self) -> Index:
        """The index, read from its file when first needed."""
        index = self._index
        if index is None:
            with _LOADING:
                index = self._index
                if index is None:
                    index = self._index = self._load_index()
                    self._file_cache.loaded(self.path, self.forget_index)
        return index

    def has_room(self, size: int, limit: int) -> bool:
        """Tell whether a batch may be appended; an empty segment accepts any size."""
        return self.dense and (self.size == 0 or self.size + size <= limit)

    def write(self, batch: WritableBatch | bytes) -> None:
        """Write a batch after the segment's end; ``accept`` then makes it part of the segment."""
        file = self._file_cache.opened.get(self.path) if self._ready else None
        (file or self._ready_file()).pwrite(batch, self.size)

    def clear_end(self, *, sync: bool) -> None:
        """Truncate the file after the last accepted batch."""
        if self.created:
            self.file.truncate(self.size)
            if sync:
                self.file.sync()

    def remove(self, files: Files) -> None:
        """Delete the segment's files; close them, too, as later files may have the same names."""
        for path in (self.path, self.index_path):
            self._file_cache.drop(path)
            files.remove(path)

    def reserve(self, length: int) -> None:
        """Reserve disk space at the end for a batch that is written later."""
        self._ready_file().allocate(self.size, length)

    def _ready_file(self) -> OpenFile:
        if self.created:
            if not self._ready:
                self.make_ready()
                self._ready = True
            return self.file
        file = self.file
        # A crash may have left a file of this name; its bytes must not reappear.
        file.truncate(0)
        self.created = self._ready = True
        return file

    def make_ready(self) -> None:
        """Verify the open block before it is extended.

        If it is damaged, a new block is begun: reading the damaged one raises, and new batches stay
        readable.
        """
        index = self.index
        if self.size and not index.trusted[-1] and not index.full:
            try:
                self._verify(index.open_position, self.size)
            except DamagedLog:
                index.full = True

    def accept(self, batch: WritableBatch | bytes, base_offset: int) -> None:
        """Make a batch part of the segment, after it was written or its space was reserved."""
        last_offset_delta, newest = read_span(batch)
        index = self._index or self.index
        index.add(base_offset, self.size, newest, batch[:COVERED])
        self.size += len(batch)
        self.next_offset = base_offset + last_offset_delta + 1
        self.newest_ms = max(self.newest_ms, newest)

    def read(self, offset: int, limit: int, max_bytes: int) -> Slice:
        """Return whole batches below position ``limit``, from the one that holds ``offset`` on."""
        position = self._hints.get(offset, -1)
        if position < 0 or position > limit:
            position = self._find(offset, limit)
        if position >= limit:
            return EMPTY
        end = self._end_of_read(position, limit, max_bytes)
        self._verify(position, end)
        return Slice(end - position, file=self.file, position=position)

    def find_time(self, timestamp_ms: int, limit: int, start: int) -> TimedOffset | None:
        """Return the first event that is at or after a time and an offset; None if there is none.

        Searches below position ``limit``.
        """
        index = self.index
        for block in range(len(index.offsets)):
            if index.newest_of(block) < timestamp_ms or index.positions[block] >= limit:
                continue
            begin, end = self._block_range(block, limit)
            self._verify(begin, end)
            for header, batch in walk(self.file.pread(end - begin, begin)):
                if header.max_timestamp < timestamp_ms or header.is_control:
                    continue
                for event in events(batch):
                    if event.timestamp_ms >= timestamp_ms and event.offset >= start:
                        return TimedOffset(event.offset, event.timestamp_ms)
        return None

    def sync(self, size: int) -> None:
        """Sync the batches before position ``size``; all of them must have been written."""
        self.file.sync()
        self.synced_size = max(size, self.synced_size)

    def save_index(self, *, sync: bool = True) -> bool:
        """Write newly closed blocks to the index file; return whether there were any."""
        # A reader may unload it at any moment.
        index = self._index
        if index is None or index.closed == self.saved_blocks:
            return False
        closed = index.closed
        file = self._file_cache.get(self.index_path, create=True)
        entries = index.encode(self.saved_blocks, closed)
        file.pwrite(entries, self.saved_blocks * ENTRY_SIZE)
        file.truncate(closed * ENTRY_SIZE)
        if sync:
            file.sync()
        self.saved_blocks = closed
        return True

    def forget_index(self) -> None:
        """Unload the index, if the index file has all of it; it is loaded again when needed."""
        index = self._index
        if not self.sealed or index is None or not self.size:
            return
        if index.closed == self.saved_blocks:
            self._open_block = index.open_block()
            self._index = None
            self._hints.clear()

    def batches(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield (position, batch) of verified blocks, a few blocks in memory at a time."""
        limit = self.size if end is None else end
        position = begin
        while position < limit:
            stop = self._end_of_read(position, limit, 4 * 1024 * 1024)
            self._verify(position, stop)
            data = self.file.pread(stop - position, position)
            for header, batch in walk(data):
                yield position, bytes(batch)
                position += header.size

    def count_events(self) -> int:
        """Return the number of events in a closed segment; counts them if offsets are missing."""
        if self.dense:
            return self.next_offset - self.base
        if self._events is None:
            self._events = sum(read_header(batch).count for _, batch in self.batches())
        return self._events

    def place(self, position: int) -> str:
        """Return a text for messages: this segment and a position in it."""
        return f"{self.path} at byte {position}"

    def _find(self, offset: int, limit: int) -> int:
        """Return the position of the first batch whose last offset is at or after ``offset``."""
        index = self.index
        if not index.offsets:
            return limit
        block = index.block_of(offset)
        while block < len(index.offsets) and index.positions[block] < limit:
            begin, end = self._block_range(block, limit)
            self._verify(begin, end)
            if index.offsets[block] >= offset:
                return begin
            position = begin
            for after, next_offset in self._spans(begin, end):
                if next_offset > offset:
                    return position
                position = after
            block += 1
        return limit

    def _spans(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the end position and next offset of each batch in a range within one block."""
        position, start, data = begin, begin, b""
        while position < end:
            at = position - start
            if at + _SPAN.size > len(data):
                # All batches begin within BLOCK_BYTES of the block, however large the last one is.
                start, at = position, 0
                data = self.file.pread(min(end - position, BLOCK_BYTES + HEADER_SIZE), position)
            if len(data) < _SPAN.size:
                raise CorruptBatch(f"{self.place(position)}: the file ends within a batch")
            base_offset, length, last_offset_delta = _SPAN.unpack_from(data, at)
            position += length + _BEFORE_LENGTH
            if length < HEADER_SIZE - _BEFORE_LENGTH or position > end:
                raise CorruptBatch(
                    f"{self.place(start + at)}: a batch of {length + _BEFORE_LENGTH} bytes does "
                    "not fit into its block"
                )
            yield position, base_offset + last_offset_delta + 1

    def _end_of_read(self, position: int, limit: int, max_bytes: int) -> int:
        """Return where a read ends: after at most ``max_bytes``, but after one batch at least."""
        target = position + max_bytes
        if target >= limit:
            return limit
        index = self.index
        block = index.block_at(target)
        border = index.positions[block]
        if border > position:
            self.remember(index.offsets[block], border)
            return border
        # The target is in the first block: find the last batch that fits.
        _, block_end = self._block_range(block, limit)
        end = next_offset = -1
        for after, offset in self._spans(position, block_end):
            if end > position and after > target:
                break
            end, next_offset = after, offset
        self.remember(next_offset, end)
        return end

    def remember(self, offset: int, position: int) -> None:
        """Remember an offset's position, since a reader's next read begins there."""
        if len(self._hints) >= MAX_HINTS:
            self._hints.clear()
        self._hints[offset] = position

    def _block_range(self, block: int, limit: int) -> tuple[int, int]:
        positions = self.index.positions
        end = positions[block + 1] if block + 1 < len(positions) else self.size
        return positions[block], min(end, limit)

    def _verify(self, begin: int, end: int) -> None:
        """Verify the blocks of a range, except those that this process has written or verified."""
        index = self.index
        last = index.block_at(end - 1) + 1
        block = index.trusted.find(0, index.block_at(begin), last)
        while block >= 0:
            self._verify_block(index, block)
            index.trusted[block] = 1
            block = index.trusted.find(0, block, last)

    def _verify_block(self, index: Index, block: int) -> None:
        begin, end = self._block_range(block, self.size)
        data = self.file.pread(end - begin, begin)
        if len(data) < end - begin:
            raise DamagedLog(
                f"{self.place(begin + len(data))}: {end - begin - len(data)} bytes are missing; "
                "run mainstem verify, then restore the file or run mainstem repair"
            )
        check = 0
        for header, batch in self._walk_or_name(data, begin):
            check = crc32c(batch[:COVERED], check)
            last = header.last_offset
        # A block that became trusted meanwhile has been verified, and may have grown since.
        if check != index.check_of(block) and not index.trusted[block]:
            raise DamagedLog(
                f"{self.place(begin)}: a batch header between offsets {index.offsets[block]} and "
                f"{last} is damaged; run mainstem verify, then restore the file or run "
                "mainstem repair"
            )

    def _walk_or_name(self, data: bytes, begin: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        try:
            yield from walk(data)
        except CorruptBatch as error:
            raise DamagedLog(
                f"{self.place(begin)}: {error}; run mainstem verify, then restore the file or "
                "run mainstem repair"
            ) from None

    def _load_index(self) -> Index:
        """Read the index file, or rebuild the index from the segment if it is damaged."""
        return self.saved_index() or self.rebuild_index()

    def saved_index(self) -> Index | None:
        """Read the index file; None if it is missing or damaged."""
        size = self.saved_blocks * ENTRY_SIZE
        try:
            data = self._file_cache.get(self.index_path).pread(size, 0) if size else b""
        except FileNotFoundError:
            return None
        return Index.decode(data, self._open_block) if len(data) == size else None

    def rebuild_index(self) -> Index:
        """Rebuild the index from the segment alone, checking everything that can be checked."""
        index = Index()
        expected = self.base
        position = 0
        while position < self.size:
            header, batch = self.checked_batch(position, self.size)
            if header.base_offset < expected or (self.dense and header.base_offset != expected):
                raise DamagedLog(
                    f"{self.place(position)}: base offset {header.base_offset}, where "
                    f"{expected} is due; run mainstem repair"
                )
            index.add(header.base_offset, position, header.max_timestamp, batch[:COVERED])
            expected = header.last_offset + 1
            position += header.size
        self.saved_blocks = 0
        return index

    def checked_batch(self, position: int, limit: int) -> tuple[BatchHeader, bytes]:
        """Return the batch at a position; raises DamagedLog if its checksum is wrong."""
        file = self.file
        try:
            header = read_header(file.pread(HEADER_SIZE, position))
            if position + header.size > limit:
                raise CorruptBatch(f"{header.size} bytes long, {limit - position} are left")
            batch = file.pread(header.size, position)
            if len(batch) < header.size or crc32c(memoryview(batch)[CHECKED_FROM:]) != header.crc:
                raise CorruptBatch("its checksum does not match")
        except CorruptBatch as error:
            raise DamagedLog(f"{self.place(position)}: damaged record batch: {error}") from None
        return header, batch


def walk(data: bytes) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield header and bytes of each batch in data that ends at a batch boundary."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = read_header(view, position)
        if position + header.size > len(view):
            raise CorruptBatch(f"a batch of {header.size} bytes reaches past the end of its block")
        yield header, view[position : position + header.size]
        position += header.size
