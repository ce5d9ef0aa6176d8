"""``mainstem repair``: keeps all that can be read of a damaged data directory, reports the rest.

Damaged segments are rewritten with their intact batches, the originals go to ``quarantine/``
unchanged, and a lost manifest is rebuilt from the directories. The broker restores the names and
settings of partitions when it opens the log.
"""

from collections.abc import Callable, Iterator

import msgspec

from mainstem.core.errors import DamagedLog
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit import manifest, wal
from mainstem.log.disk import DiskLog
from mainstem.log.disk_partition import PARTITIONS, DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.options import Options
from mainstem.log.port import PartitionId
from mainstem.log.recovery.tail_recovery import QUARANTINE, segment_names
from mainstem.log.recovery.verification import Piece, pieces
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.segment import Segment


class Repaired(msgspec.Struct):
    """The result of a repair: what was repaired, and what is lost."""

    manifest_rebuilt: bool = False
    segments: int = 0
    """The number of segments that were rewritten."""
    restored: int = 0
    """The number of batches whose base offset was damaged, and restored from their neighbours."""
    lost: list[str] = []
    """Messages: ranges that could not be read; the original segments are in quarantine."""
    findings: list[str] = []
    """Messages about what recovery found when the directory was opened."""


def repair(files: Files, now_ms: Callable[[], int]) -> Repaired:
    """Repair the directory, which must be locked by the caller."""
    result = Repaired()
    files.lock(None)
    if _has_no_manifest(files):
        _rebuild_manifest(files, now_ms)
        result.manifest_rebuilt = True
    log = DiskLog.open(files=files, now_ms=now_ms, options=Options(background=False))
    try:
        result.findings = list(log.recovery.findings)
        for partition in log.disk_partitions():
            for segment in list(partition.segments):
                _mend(files, log, partition, segment, result)
    finally:
        log.close()
    return result


def _has_no_manifest(files: Files) -> bool:
    try:
        known, _ = manifest.read(files)
    except DamagedLog:
        return True
    return known is None and bool(files.names(PARTITIONS) or files.names(wal.DIRECTORY))


def _mend(
    files: Files, log: DiskLog, partition: DiskPartition, segment: Segment, result: Repaired
) -> None:
    if segment.size == 0:
        return
    try:
        found = list(_problems(pieces(segment, segment.saved_index(), partition.epochs)))
    except FileNotFoundError:
        found = [Piece(0, None, "the file is missing")]
    if not found:
        return
    for position, batch, problem in found:
        if batch is None:
            result.lost.append(f"{segment.place(position)} ({partition.place}): {problem}")
        else:
            result.restored += 1
    missing = segment.path.rpartition("/")[2] not in files.names(partition.directory)
    kept: Iterator[Piece] = iter(())
    if not missing:
        _copy(files, segment)
        kept = pieces(segment, segment.saved_index(), partition.epochs)
    log.upkeep.segment_changes.rewrite(partition, segment, _batches(kept), gaps=_has_gaps(found))
    result.segments += 1


def _problems(found: Iterator[Piece]) -> Iterator[Piece]:
    return (piece for piece in found if piece.problem is not None)


def _batches(found: Iterator[Piece]) -> Iterator[bytes | bytearray]:
    return (batch for _, batch, _ in found if batch is not None)


def _has_gaps(found: list[Piece]) -> bool:
    return any(batch is None for _, batch, _ in found)


def _copy(files: Files, segment: Segment) -> None:
    name = f"{QUARANTINE}/{segment.path.replace('/', '_')}"
    kept = files.open(name, create=True)
    kept.truncate(0)
    position = 0
    while data := segment.file.pread(4 * 1024 * 1024, position):
        kept.pwrite(data, position)
        position += len(data)
    kept.sync()
    files.sync_dir(QUARANTINE)


def _rebuild_manifest(files: Files, now_ms: Callable[[], int]) -> None:
    """Rebuild a lost manifest from the partition directories."""
    file_cache = FileCache(files, 64)
    saved = []
    for directory in files.names(PARTITIONS):
        topic_id, _, number = directory.rpartition("-")
        if len(topic_id) == 32 and number.isdigit():
            found = PartitionId(topic_id, int(number))
            partition = DiskPartition(files, file_cache, found, topic_id, TopicSettings())
            _find_segments(files, partition, now_ms())
            saved.append(manifest.encode_partition(partition.record()))
    places = wal.listed(files)
    if places:
        manifest.write(files, places[-1].number, wal.first_sequence(files, places[-1]), saved)
    else:
        manifest.write(files, 0, 1, saved)


def _find_segments(files: Files, partition: DiskPartition, now_ms: int) -> None:
    """Add to the partition the newest segment file of each offset range, up to its first damage."""
    newest: dict[int, int] = {}
    for base, generation in segment_names(files, partition.directory):
        newest[base] = max(generation, newest.get(base, -1))
    for base, generation in sorted(newest.items()):
        if base < partition.end and partition.segments:
            # An older generation; a compacted segment covers its offsets.
            continue
        segment = partition.empty_segment(base, now_ms, generation)
        segment.created = True
        partition.generation = max(partition.generation, generation)
        size = segment.file.size()
        while segment.size < size:
            try:
                header, batch = segment.checked_batch(segment.size, size)
            except DamagedLog:
                break
            segment.dense = segment.dense and header.base_offset == segment.next_offset
            segment.accept(batch, header.base_offset)
            if header.epoch > partition.epoch:
                partition.epoch = header.epoch
                partition.epochs.append((header.epoch, header.base_offset))
        segment.save_index()
        partition.segments.append(segment)
        partition.end = segment.next_offset
    partition.start = partition.segments[0].base if partition.segments else 0
