"""``mainstem verify``: checks a data directory without changing it.

Every batch of every segment is read and checked against its checksum, its index and the manifest.
What the manifest does not cover yet (after an unclean stop) is left to recovery.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from mainstem.core.batch import HEADER_SIZE, BatchHeader, place, read_header
from mainstem.core.checksum import crc32c
from mainstem.core.errors import CorruptBatch, DamagedLog
from mainstem.core.records import events
from mainstem.log.commit import manifest, wal
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.recovery.tail_recovery import QUARANTINE
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.index import COVERED, Index
from mainstem.log.segments.segment import Segment, SegmentRecord

_OPEN_FILES = 64


class Finding(msgspec.Struct, frozen=True):
    """One problem that verification found."""

    place: str
    """The file, and the byte position if known."""
    problem: str
    serious: bool = True
    """Whether events are lost or unreadable; if not, recovery repairs the problem."""


class Checked(msgspec.Struct):
    """The result of verification: what was checked, and what was found."""

    clean: bool = True
    """Whether the log was closed cleanly; otherwise opening it runs recovery."""
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    events: int = 0
    bytes: int = 0
    findings: list[Finding] = []


def verify(files: Files, progress: Callable[[Checked], None] = lambda _: None) -> Checked:
    """Check all partitions and segments that the manifest lists."""
    checked = Checked()
    known, damage = manifest.read(files)
    checked.findings += [Finding(text.partition(":")[0], text, serious=False) for text in damage]
    if known is None:
        return checked
    found = wal.scan(files, known.wal_number, known.wal_sequence)
    checked.clean = not found.entries
    for lost in found.lost:
        checked.findings.append(Finding(wal.DIRECTORY, f"{lost.place}: {lost.problem}"))
    file_cache = FileCache(files, _OPEN_FILES)
    for saved in known.partitions:
        record = manifest.decode_partition(saved)
        partition = DiskPartition.load(files, file_cache, record)
        checked.partitions += 1
        for segment, described in zip(partition.segments, record.segments, strict=True):
            checked.segments += 1
            checked.findings += _check_segment(partition, segment, described, checked)
            progress(checked)
    for name in files.names(QUARANTINE):
        checked.findings.append(
            Finding(f"{QUARANTINE}/{name}", "kept from an earlier recovery", serious=False)
        )
    return checked


class Piece(NamedTuple):
    """A range of bytes of a segment: a batch, a problem, or a batch with a problem."""

    position: int
    batch: bytes | bytearray | None
    """The batch, with a damaged base offset or epoch corrected; None if it cannot be read."""
    problem: str | None


def _check_segment(
    partition: DiskPartition, segment: Segment, described: SegmentRecord, checked: Checked
) -> Iterator[Finding]:
    if described.size == 0:
        return
    try:
        size = segment.file.size()
    except FileNotFoundError:
        lost = f"offsets {segment.base} to {segment.next_offset - 1}"
        yield Finding(segment.path, f"the file is missing, and with it {lost}")
        return
    if size < described.size:
        missing = described.size - size
        yield Finding(segment.path, f"{missing} of its {described.size} bytes are missing")
    index = segment.saved_index()
    if index is None:
        yield Finding(segment.index_path, "damaged or missing; it is made again", serious=False)
    for position, batch, problem in pieces(segment, index, partition.epochs):
        if batch is not None:
            checked.batches += 1
            checked.bytes += len(batch)
            checked.events += read_header(batch).count
        if problem is not None:
            yield Finding(f"{segment.path} at byte {position}", problem)


def pieces(segment: Segment, index: Index | None, epochs: list[tuple[int, int]]) -> Iterator[Piece]:
    """Divide a segment into pieces without gaps; each has a batch, a problem, or both."""
    if segment.dense or index is None:
        yield from _stretch(segment, 0, segment.size, segment.base, epochs)
        return
    ends = [*index.positions[1:], segment.size]
    for block, (begin, end) in enumerate(zip(index.positions, ends, strict=True)):
        found = list(_stretch(segment, begin, end, index.offsets[block], epochs))
        check = 0
        for _, batch, _ in found:
            check = crc32c(memoryview(batch or b"")[:COVERED], check)
        if all(each.problem is None for each in found) and check != index.check_of(block):
            # A compacted segment has gaps, so it is unknown which batch was changed.
            yield Piece(begin, None, f"a batch header in the {end - begin} bytes was changed")
        else:
            yield from found


def _stretch(
    segment: Segment, position: int, end: int, expected: int, epochs: list[tuple[int, int]]
) -> Iterator[Piece]:
    while position < end:
        try:
            header, batch = segment.checked_batch(position, end)
            for _ in events(batch):
                pass
        except (CorruptBatch, DamagedLog) as error:
            resume = _next_batch(segment, position + 1, end, expected)
            yield Piece(position, None, f"{error}; {resume - position} bytes cannot be read")
            if resume < end:
                expected = read_header(segment.file.pread(HEADER_SIZE, resume)).base_offset
            position = resume
            continue
        yield _placed(segment, position, header, batch, expected, epochs)
        expected = (expected if segment.dense else header.base_offset) + (
            header.last_offset_delta + 1
        )
        position += header.size


def _placed(
    segment: Segment,
    position: int,
    header: BatchHeader,
    batch: bytes,
    expected: int,
    epochs: list[tuple[int, int]],
) -> Piece:
    """Check a batch's base offset and leader epoch, which its CRC does not cover."""
    if not segment.dense:
        problem = f"base offset {header.base_offset} after {expected - 1}"
        return Piece(position, batch, None if header.base_offset >= expected else problem)
    epoch = max((each for each, start in epochs if start <= expected), default=0)
    if (header.base_offset, header.epoch) == (expected, epoch):
        return Piece(position, batch, None)
    restored = bytearray(batch)
    place(restored, expected, epoch)
    problem = (
        f"base offset {header.base_offset} and epoch {header.epoch}, "
        f"where {expected} and {epoch} are due"
    )
    return Piece(position, restored, problem)


def _next_batch(segment: Segment, position: int, end: int, least_offset: int) -> int:
    """Return the position of the next intact batch, ``end`` if there is none."""
    data = segment.file.pread(end - position, position)
    # The magic byte is at byte 16 of a batch, which rules out most positions quickly.
    at = data.find(b"\x02", 16)
    while at >= 0:
        start = position + at - 16
        if _is_batch(segment, start, end, least_offset):
            return start
        at = data.find(b"\x02", at + 1)
    return end


def _is_batch(segment: Segment, position: int, end: int, least_offset: int) -> bool:
    try:
        header, _ = segment.checked_batch(position, end)
    except DamagedLog:
        return False
    return least_offset <= header.base_offset and header.last_offset < segment.next_offset
