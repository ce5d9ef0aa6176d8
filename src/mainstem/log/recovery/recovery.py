"""Recovery: opening a data directory after a clean stop, a crash or a power cut.

How this works: the manifest holds the recovery point of every partition, and the write-ahead log
what happened since. If that log is empty, the stop was clean and there is nothing to do. Otherwise

1. its entries are applied to the partitions (created, deleted, cut, replaced), and the batches in
   it are written to their segments again, whether or not they are there already;
2. the tail of every touched partition is read from its recovery point, and batches are accepted
   while they are complete, in order, and of the current epoch; if one batch of an atomic append is
   missing, the others are not accepted either;
3. remaining bytes (a torn write, or damage) are moved to ``quarantine/`` and reported; nothing is
   deleted;
4. everything is synced, a new epoch begins, and a new manifest is written before anyone reads: a
   reader must not see what the next power cut would lose.

Before a process appends its first batch, it writes a durable OPENED entry. So whatever a crash
leaves in the segments, the next opening knows that the stop was unclean, and the new epoch keeps
those bytes from being mistaken for batches of a later process.

Recovery may be interrupted at any point and started again.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

from mainstem.core.batch import read_header
from mainstem.core.errors import DamagedLog
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit import manifest, wal
from mainstem.log.commit.manifest import Manifest
from mainstem.log.commit.shared_batches import appended_parts
from mainstem.log.commit.wal import Entry, Kind, Part, WriteAheadLog
from mainstem.log.disk_partition import PARTITIONS, DiskPartition, PartitionRecord
from mainstem.log.files.files import Files
from mainstem.log.port import PartitionId
from mainstem.log.recovery.tail_recovery import NO_LIMIT, QUARANTINE, TailRecovery, quarantine
from mainstem.log.segments.file_cache import FileCache

T = TypeVar("T")

_logger = logging.getLogger("mainstem.log")


class Report(msgspec.Struct):
    """What recovery found and did."""

    clean: bool = True
    entries: int = 0
    """The number of write-ahead entries that were applied."""
    partitions: int = 0
    """The number of partitions whose tails were read."""
    scanned_bytes: int = 0
    findings: list[str] = []
    """Messages: what was damaged or torn, and where in quarantine it is now."""


class Recovered(NamedTuple):
    """The contents of a recovered directory."""

    partitions: dict[PartitionId, DiskPartition]
    wal: WriteAheadLog
    file_cache: FileCache
    report: Report


def recover(
    files: Files,
    file_cache: FileCache,
    now_ms: Callable[[], int],
    *,
    wal_step_bytes: int,
    sync_all_from: int,
) -> Recovered:
    """Recover a data directory, and return its contents, ready to be served."""
    known, damage = manifest.read(files)
    report = Report(findings=list(damage))
    if known is None:
        _check_fresh(files)
        known = Manifest(0, 1, [])
        _make_directories(files)
        manifest.write(files, 0, 1, [])
    _make_directories(files)
    partitions: dict[PartitionId, DiskPartition] = {}
    for saved in known.partitions:
        partition = DiskPartition.load(files, file_cache, manifest.decode_partition(saved))
        partition.saved = saved
        partitions[partition.id] = partition
    found = wal.scan(files, known.wal_number, known.wal_sequence)
    # A process may have been killed between renaming the manifest and syncing the directory.
    files.sync_dir("")
    number = found.last.number + 1 if found.last else known.wal_number + 1
    spare = found.last.path if found.last else None
    for place, problem, data in found.lost:
        where = ""
        if data:
            name = quarantine(files, place.replace("/", "_"), data)
            where = f"; its bytes are in {QUARANTINE}/{name}"
        report.findings.append(f"{place}: {problem}{where}")
    unclean = bool(found.entries or found.lost)
    # Before the manifest refers to it: a missing write-ahead file counts as lost.
    prepared = wal.prepare(files, number, None if unclean else spare)
    if unclean:
        report.clean = False
        report.entries = len(found.entries)
        # A killed process may have left its last entries in the page cache only; their effects
        # must not become durable before them.
        wal.sync(files, known.wal_number)
        files.sync_dir(QUARANTINE)
        recovery = _Recovery(files, file_cache, now_ms, partitions, report, sync_all_from)
        recovery.run(found.entries, number, found.next_sequence)
    log = WriteAheadLog(*prepared, found.next_sequence, wal_step_bytes)
    return Recovered(partitions, log, file_cache, report)


def _check_fresh(files: Files) -> None:
    """Raise DamagedLog if the directory holds data but no manifest."""
    if files.names(PARTITIONS) or files.names(wal.DIRECTORY):
        raise DamagedLog(
            "there is no manifest, but there are partitions or a write-ahead log, so the log "
            "cannot tell what it holds; restore the manifest, or run mainstem repair"
        )


def _make_directories(files: Files) -> None:
    missing = {PARTITIONS, wal.DIRECTORY, QUARANTINE} - set(files.names(""))
    for directory in sorted(missing):
        files.make_dir(directory)
    if missing:
        files.sync_dir("")


class _Recovery:
    """One run of recovery: applies the write-ahead log, then reads the tails it touched."""

    def __init__(
        self,
        files: Files,
        file_cache: FileCache,
        now_ms: Callable[[], int],
        partitions: dict[PartitionId, DiskPartition],
        report: Report,
        sync_all_from: int,
    ) -> None:
        self._files, self._file_cache = files, file_cache
        self._now_ms = now_ms
        self._partitions, self._report = partitions, report
        self._sync_all_from = sync_all_from
        self._touched: dict[PartitionId, None] = {}
        self._gone: defaultdict[bytes, set[tuple[int, int]]] = defaultdict(set)
        """Removed segments (base offset, generation) by partition key."""
        self._deleted: set[PartitionId] = set()
        self._together: list[list[Part]] = []
        """The batches of each atomic append, which are all recovered, or none."""

    def run(self, entries: list[Entry], number: int, sequence: int) -> None:
        """Apply the entries, read the tails, sync, and write a new manifest."""
        for entry in entries:
            self._fold(entry)
        for entry in entries:
            self._redo(entry)
        ends = self._read_ends()
        if sum(end.quarantine() for end in ends):
            self._files.sync_dir(QUARANTINE)
        # All partitions: bytes that a crash left in any segment must not look like ours later.
        for partition in self._partitions.values():
            partition.begin_epoch(partition.epoch + 1)
            partition.saved = manifest.encode_partition(partition.record())
        self._settle(ends)
        # Once the manifest is written, nothing tells what to remove.
        self._remove_deleted()
        saved = [each.saved for each in self._partitions.values()]
        manifest.write(self._files, number, sequence, [each for each in saved if each is not None])
        for place in wal.listed(self._files):
            if place.number < number:
                self._files.remove(place.path)

    def _settle(self, ends: list[TailRecovery]) -> None:
        """Truncate unusable bytes, make the recovered tails durable, and add them to the report."""
        at_once = len(ends) >= self._sync_all_from
        for end in ends:
            end.settle(sync=not at_once)
            self._report.scanned_bytes += end.scanned_bytes
            self._report.findings += end.findings
        self._report.partitions = len(ends)
        if at_once:
            self._files.sync_all()
            for end in ends:
                for segment in end.partition.segments:
                    segment.synced_size = segment.size
        self._files.sync_dir(PARTITIONS)

    def _fold(self, entry: Entry) -> None:
        """Apply an entry to the partitions in memory; ``_redo`` writes the batches of entries."""
        match entry.kind:
            case Kind.APPEND | Kind.APPEND_SHARED:
                self._expect(list(appended_parts(entry)))
            case Kind.TOUCH:
                self._touched[_partition_id(bytes(entry.payload))] = None
            case Kind.ENSURE:
                self._ensure(*_decode(entry, tuple[PartitionId, str, TopicSettings]))
            case Kind.DELETE:
                self._delete(_decode(entry, list[PartitionId]))
            case Kind.CUT:
                self._cut(*_decode(entry, tuple[PartitionId, int, int, list[tuple[int, int]]]))
            case Kind.REPLACE:
                record, gone = _decode(entry, tuple[PartitionRecord, list[tuple[int, int]]])
                self._replace(record, gone)

    def _expect(self, parts: list[Part]) -> None:
        for part in parts:
            self._touched[_partition_id(part.key)] = None
        if len(parts) > 1:
            self._together.append(parts)

    def _delete(self, partitions: list[PartitionId]) -> None:
        for partition_id in partitions:
            self._deleted.add(partition_id)
            self._partitions.pop(partition_id, None)

    def _ensure(self, partition_id: PartitionId, topic: str, settings: TopicSettings) -> None:
        partition = self._partitions.get(partition_id)
        if partition is None:
            partition = DiskPartition(self._files, self._file_cache, partition_id, topic, settings)
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
        # Other segments before the start are dropped when the tail has been read.
        partition.start = max(start, partition.start)
        dropped = set(gone)
        partition.segments = [
            each for each in partition.segments if (each.base, each.generation) not in dropped
        ]
        partition.end = max(partition.end, begins)
        self._gone[partition.key] |= dropped

    def _replace(self, record: PartitionRecord, gone: Iterable[tuple[int, int]]) -> None:
        partition_id = PartitionId(record.topic_id, record.number)
        if partition_id not in self._partitions:
            return
        partition = self._load(record)
        partition.start = max(partition.start, self._partitions[partition_id].start)
        self._partitions[partition_id] = partition
        self._touched[partition_id] = None
        self._gone[partition.key].update(gone)

    def _redo(self, entry: Entry) -> None:
        """Write the batches of an entry to their segments again."""
        for part in appended_parts(entry):
            partition = self._partitions.get(_partition_id(part.key))
            if partition is None or self._is_gone(part):
                continue
            self._files.make_dir(partition.directory)
            path = partition.empty_segment(part.base, 0, part.generation).path
            file = self._file_cache.get(path, create=True)
            if file.pread(len(part.batch), part.position) != part.batch:
                file.pwrite(part.batch, part.position)

    def _read_ends(self) -> list[TailRecovery]:
        """Read touched tails; repeat until each atomic append is recovered whole or not at all."""
        found: dict[PartitionId, TailRecovery] = {}
        points = {each: self._partitions[each].record() for each in self._partitions}
        limits = dict.fromkeys(self._partitions, NO_LIMIT)
        again = [each for each in self._touched if each in self._partitions]
        while again:
            for partition_id in again:
                if partition_id in found:
                    point = points[partition_id]
                    self._partitions[partition_id] = self._load(point)
                end = TailRecovery(
                    self._files, self._partitions[partition_id], limits[partition_id]
                )
                end.read(self._gone[self._partitions[partition_id].key], self._now_ms)
                found[partition_id] = end
            again = self._tighten(limits, points)
        return list(found.values())

    def _tighten(
        self, limits: dict[PartitionId, int], points: dict[PartitionId, PartitionRecord]
    ) -> list[PartitionId]:
        """Exclude the batches of incomplete atomic appends; return the partitions to read again."""
        tightened: dict[PartitionId, None] = {}
        for parts in self._together:
            there: list[tuple[PartitionId, int]] = []
            whole = True
            for part in parts:
                partition_id = _partition_id(part.key)
                offset = read_header(part.batch).base_offset
                partition = self._partitions.get(partition_id)
                if self._is_gone(part) or partition_id in self._deleted:
                    continue
                if partition is not None and offset < partition.start:
                    continue
                if partition is None or offset >= partition.end:
                    whole = whole and not part.synced
                elif offset >= points[partition_id].end:
                    there.append((partition_id, offset))
            if not whole:
                for partition_id, offset in there:
                    limits[partition_id] = min(offset, limits[partition_id])
                    tightened[partition_id] = None
        return list(tightened)

    def _is_gone(self, part: Part) -> bool:
        return (part.base, part.generation) in self._gone.get(part.key, ())

    def _load(self, record: PartitionRecord) -> DiskPartition:
        return DiskPartition.load(self._files, self._file_cache, record)

    def _remove_deleted(self) -> None:
        """Remove the files of deleted partitions, even if the manifest does not list them."""
        for partition_id in sorted(self._deleted - self._partitions.keys()):
            directory = f"{PARTITIONS}/{partition_id.topic_id}-{partition_id.number}"
            try:
                for name in self._files.names(directory):
                    self._files.remove(f"{directory}/{name}")
                self._files.remove(directory)
            except OSError as error:
                # Files that cannot be removed must not prevent opening.
                _logger.warning("cannot remove %s: %s", directory, error)


def _partition_id(key: bytes) -> PartitionId:
    return PartitionId(key[:16].hex(), int.from_bytes(key[16:20], "big"))


def _decode(entry: Entry, kind: type[T]) -> T:
    return msgspec.msgpack.decode(entry.payload, type=kind)
