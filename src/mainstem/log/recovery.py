"""Opening a data directory: clean, or after the process or the machine ended in the middle.

How this works: the manifest tells the recovery point of every partition, and the write-ahead log
what happened since. If it holds nothing, the end was clean and there is nothing to do. Otherwise

1. its entries are folded over the partitions (created, deleted, cut, replaced), and the batches
   in it are written again to where they belong, whether or not they had got there;
2. the end of every partition that was touched is read from its recovery point on, and batches
   are accepted as long as they are whole, in order, and of the current epoch;
3. what is left beyond that (a write that was cut off, or damage) is moved to ``quarantine/`` and
   named in the report; nothing is deleted;
4. everything is synced, a new epoch begins, and a new manifest is written, before anyone reads:
   a reader must not see what the next power cut would take away.

All of it may be interrupted and begun again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from mainstem.core.batch import HEADER_SIZE, checksum_matches, read_header
from mainstem.core.errors import CorruptBatch
from mainstem.core.policies import TopicSettings
from mainstem.log import manifest, wal
from mainstem.log.files import Files
from mainstem.log.handles import Handles
from mainstem.log.manifest import Manifest
from mainstem.log.partition import PARTITIONS, DiskPartition, PartitionRecord
from mainstem.log.port import PartitionId
from mainstem.log.segment import Segment
from mainstem.log.wal import Entry, Kind, WriteAheadLog, decode_parts

QUARANTINE = "quarantine"
_WINDOW = 4 * 1024 * 1024

T = TypeVar("T")
Place = tuple[bytes, int, int]
"""A segment: its partition's key, base offset, generation."""


class Report(msgspec.Struct):
    """What opening found and did."""

    clean: bool = True
    entries: int = 0
    """Entries of the write-ahead log that were applied again."""
    partitions: int = 0
    """Partitions whose ends were read."""
    scanned_bytes: int = 0
    findings: list[str] = []
    """What was damaged or cut off, and where it is now."""


class Recovered(NamedTuple):
    """A directory ready to be served."""

    partitions: dict[PartitionId, DiskPartition]
    wal: WriteAheadLog
    handles: Handles
    report: Report


def recover(
    files: Files, handles: Handles, now_ms: Callable[[], int], wal_step_bytes: int
) -> Recovered:
    """Bring the directory into a state that can be served."""
    known, damage = manifest.read(files)
    report = Report(findings=list(damage))
    if known is None:
        known = Manifest(1, 1, ())
        _make_directories(files)
        manifest.write(files, 1, 1, [])
    partitions = {
        PartitionId(record.topic_id, record.number): DiskPartition.load(files, handles, record)
        for record in known.partitions
    }
    for partition in partitions.values():
        partition.saved = manifest.encode_partition(partition.record())
    found = wal.scan(files, known.wal_number, known.wal_sequence)
    number = found.last_number
    if found.lost:
        report.findings.append(found.lost)
    if found.entries:
        report.clean = False
        report.entries = len(found.entries)
        number += 1
        recovery = _Recovery(files, handles, now_ms, partitions, report)
        recovery.run(found.entries, number, found.next_sequence)
    log = WriteAheadLog(files, number, found.next_sequence, wal_step_bytes)
    files.sync_dir(wal.DIRECTORY)
    return Recovered(partitions, log, handles, report)


def _make_directories(files: Files) -> None:
    for directory in (PARTITIONS, wal.DIRECTORY, QUARANTINE):
        files.make_dir(directory)
    files.sync_dir("")


class _Recovery:
    """One pass over the write-ahead log and the ends of what it touched."""

    def __init__(
        self,
        files: Files,
        handles: Handles,
        now_ms: Callable[[], int],
        partitions: dict[PartitionId, DiskPartition],
        report: Report,
    ) -> None:
        self._files = files
        self._handles = handles
        self._now_ms = now_ms
        self._partitions = partitions
        self._report = report
        self._touched: dict[PartitionId, None] = {}
        self._gone: set[Place] = set()
        self._gone_partitions: list[DiskPartition] = []

    def run(self, entries: list[Entry], number: int, sequence: int) -> None:
        """Apply, read, sync, and leave a new manifest behind."""
        for entry in entries:
            self._fold(entry)
        for entry in entries:
            if entry.kind is Kind.APPEND:
                self._redo(entry)
        for partition_id in self._touched:
            partition = self._partitions.get(partition_id)
            if partition is not None:
                self._read_end(partition)
        self._report.partitions = len(self._touched)
        self._files.sync_dir(PARTITIONS)
        self._files.sync_dir(QUARANTINE)
        saved = [each.saved for each in self._partitions.values()]
        manifest.write(self._files, number, sequence, [each for each in saved if each is not None])
        self._clear_away(number)

    def _fold(self, entry: Entry) -> None:
        """Apply what an entry says of the partitions themselves."""
        match entry.kind:
            case Kind.APPEND:
                for part in decode_parts(entry.payload):
                    self._touched[_partition_id(part.key)] = None
            case Kind.TOUCH:
                self._touched[_partition_id(bytes(entry.payload))] = None
            case Kind.ENSURE:
                self._ensure(*_decode(entry, tuple[PartitionId, str, TopicSettings]))
            case Kind.DELETE:
                for partition_id in _decode(entry, list[PartitionId]):
                    partition = self._partitions.pop(partition_id, None)
                    if partition is not None:
                        self._gone_partitions.append(partition)
            case Kind.CUT:
                self._cut(*_decode(entry, tuple[PartitionId, int, int, list[tuple[int, int]]]))
            case Kind.REPLACE:
                record, gone = _decode(entry, tuple[PartitionRecord, list[tuple[int, int]]])
                self._replace(record, gone)

    def _ensure(self, partition_id: PartitionId, topic: str, settings: TopicSettings) -> None:
        partition = self._partitions.get(partition_id)
        if partition is None:
            partition = DiskPartition(self._files, self._handles, partition_id, topic, settings)
            self._partitions[partition_id] = partition
        partition.settings = settings
        self._touched[partition_id] = None

    def _cut(
        self, partition_id: PartitionId, start: int, begins: int, gone: list[tuple[int, int]]
    ) -> None:
        partition = self._partitions.get(partition_id)
        if partition is None:
            return
        self._touched[partition_id] = None
        # Other segments that hold nothing any more go when the end has been read.
        partition.start = max(start, partition.start)
        partition.segments = [
            each for each in partition.segments if (each.base, each.generation) not in gone
        ]
        partition.end = max(partition.end, begins)
        self._gone.update((partition.key, base, generation) for base, generation in gone)

    def _replace(self, record: PartitionRecord, gone: Iterable[tuple[int, int]]) -> None:
        partition_id = PartitionId(record.topic_id, record.number)
        if partition_id not in self._partitions:
            return
        partition = DiskPartition.load(self._files, self._handles, record)
        partition.start = max(partition.start, self._partitions[partition_id].start)
        self._partitions[partition_id] = partition
        self._touched[partition_id] = None
        self._gone.update((partition.key, base, generation) for base, generation in gone)

    def _redo(self, entry: Entry) -> None:
        """Write the batches of an entry to where they belong."""
        for key, base, generation, position, batch in decode_parts(entry.payload):
            partition = self._partitions.get(_partition_id(key))
            if partition is None or (key, base, generation) in self._gone:
                continue
            self._files.make_dir(partition.directory)
            path = Segment(self._handles, partition.directory, base, 0, generation).path
            file = self._handles.get(path, create=True)
            if file.pread(len(batch), position) != batch:
                file.pwrite(batch, position)

    def _read_end(self, partition: DiskPartition) -> None:
        """Accept what is whole beyond the recovery point, and make it durable."""
        if partition.segments:
            self._extend(partition, partition.segments[-1])
        for base, generation in self._unknown_segments(partition):
            segment = partition.empty_segment(base, self._now_ms(), generation)
            segment.created = True
            if base == partition.end:
                partition.segments.append(segment)
                self._extend(partition, segment)
            elif base > partition.end:
                reason = f"offsets {partition.end} to {base - 1} before it are missing"
                self._quarantine(partition, segment, 0, reason)
                self._files.remove(segment.path)
            else:
                # Written by a replacement that never came about.
                self._files.remove(segment.path)
                self._files.remove(segment.index_path)
        # A power cut may take what a start was moved over; its offsets are not given again.
        partition.end = max(partition.end, partition.start)
        partition.reveal(partition.end)
        for segment in partition.drop_before(partition.start):
            self._files.remove(segment.path)
            self._files.remove(segment.index_path)
        partition.begin_epoch(partition.epoch + 1)
        for segment in partition.segments:
            if segment.created:
                segment.save_index()
                segment.sync()
        if self._files.names(partition.directory):
            self._files.sync_dir(partition.directory)
        partition.saved = manifest.encode_partition(partition.record())

    def _extend(self, partition: DiskPartition, segment: Segment) -> None:
        """Read a segment from its recovery point on, and cut off what is not whole."""
        if not segment.created:
            return
        file = segment.file
        reason = ""
        while True:
            window = file.pread(_WINDOW, segment.size)
            reason = self._accept_window(partition, segment, window)
            if reason or len(window) < _WINDOW:
                break
        if segment.size < file.size():
            self._quarantine(partition, segment, segment.size, reason or "a batch is cut off")
            file.truncate(segment.size)

    def _accept_window(self, partition: DiskPartition, segment: Segment, window: bytes) -> str:
        """Accept the batches of a stretch; return why the next one cannot be, if so."""
        view = memoryview(window)
        position = 0
        while len(view) - position >= HEADER_SIZE:
            try:
                header = read_header(view, position)
            except CorruptBatch as error:
                return str(error)
            if position + header.size > len(view):
                if position == 0 and len(view) == _WINDOW:
                    view = memoryview(segment.file.pread(header.size, segment.size))
                    if len(view) == header.size:
                        continue
                return "" if len(window) == _WINDOW and position else "a batch is cut off"
            if not checksum_matches(view, position, header.size):
                return "a checksum does not match"
            if header.base_offset != partition.end or header.epoch != partition.epoch:
                return f"offset {header.base_offset} stands where {partition.end} is due"
            batch = view[position : position + header.size]
            partition.accept(segment, header, batch.tobytes())
            self._report.scanned_bytes += header.size
            position += header.size
        return "" if len(window) == _WINDOW or position == len(view) else "a batch is cut off"

    def _unknown_segments(self, partition: DiskPartition) -> list[tuple[int, int]]:
        """Return (base, generation) of the segments that the recovery point does not know."""
        known = {(each.base, each.generation) for each in partition.segments}
        found = []
        for place in segment_names(self._files, partition.directory):
            if (partition.key, *place) in self._gone:
                segment = partition.empty_segment(place[0], 0, place[1])
                self._files.remove(segment.path)
                self._files.remove(segment.index_path)
            elif place not in known:
                found.append(place)
        return sorted(found)

    def _quarantine(
        self, partition: DiskPartition, segment: Segment, position: int, reason: str
    ) -> None:
        """Keep bytes that cannot be used, and name them; stretches of zeros hold nothing."""
        data = segment.file.pread(segment.file.size() - position, position)
        if not data.strip(b"\0"):
            return
        name = f"{segment.path.replace('/', '_')}@{position}"
        kept = self._files.open(f"{QUARANTINE}/{name}", create=True)
        kept.truncate(0)
        kept.pwrite(data, 0)
        kept.sync()
        self._report.findings.append(
            f"{segment.place(position)} ({partition.place}, offset {partition.end}): {reason}; "
            f"{len(data)} bytes were moved to {QUARANTINE}/{name}"
        )

    def _clear_away(self, number: int) -> None:
        """Remove what the new manifest does not need."""
        for partition in self._gone_partitions:
            for name in self._files.names(partition.directory):
                self._files.remove(f"{partition.directory}/{name}")
            self._files.remove(partition.directory)
        for name in self._files.names(wal.DIRECTORY):
            if name.endswith(".wal") and name[:-4].isdigit() and int(name[:-4]) < number:
                self._files.remove(f"{wal.DIRECTORY}/{name}")


def segment_names(files: Files, directory: str) -> Iterator[tuple[int, int]]:
    """Yield (base, generation) of the segments in a directory."""
    for name in files.names(directory):
        base, _, generation = name.removesuffix(".seg").partition("-")
        if name.endswith(".seg") and base.isdigit() and generation.isdigit():
            yield int(base), int(generation)


def _partition_id(key: bytes) -> PartitionId:
    return PartitionId(key[:16].hex(), int.from_bytes(key[16:20], "big"))


def _decode(entry: Entry, kind: type[T]) -> T:
    return msgspec.msgpack.decode(entry.payload, type=kind)
