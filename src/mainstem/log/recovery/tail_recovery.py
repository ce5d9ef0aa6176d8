"""Recovers the tail of a partition after an unclean stop: the batches after its recovery point.

At first the tail is only read, so that it can be read again, up to a lower offset, if an atomic
append turns out to be incomplete. Then bytes that cannot be used are copied to ``quarantine/``.
Only when the copies are durable is anything truncated.
"""

from collections.abc import Callable, Iterator

from mainstem.core.batch import HEADER_SIZE, BatchHeader, checksum_matches, read_header
from mainstem.core.errors import CorruptBatch, DamagedLog
from mainstem.log.commit import manifest
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.segments.segment import Segment

QUARANTINE = "quarantine"
NO_LIMIT = 1 << 63
_WINDOW = 4 * 1024 * 1024


class TailRecovery:
    """Recovers one partition's tail: call ``read``, then ``quarantine``, then ``settle``."""

    def __init__(self, files: Files, partition: DiskPartition, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._leftovers: list[tuple[Segment, int, str]] = []
        """Bytes that are not part of the log: segment, position, and reason."""
        self._outdated: list[Segment] = []
        self._missing: set[Segment] = set()
        self._untouchable = False
        self.partition = partition
        self.scanned_bytes = 0
        self.findings: list[str] = []

    def read(self, gone: set[tuple[int, int]], now_ms: Callable[[], int]) -> None:
        """Accept the tail's batches while complete and in order; changes nothing on disk.

        ``gone``: segments that were removed (base offset, generation).
        """
        partition = self.partition
        present = sorted(segment_names(self._files, partition.directory))
        # Segments before the start may be gone already, removed by an interrupted recovery.
        partition.segments = [
            each
            for each in partition.segments
            if each.next_offset > partition.start or (each.base, each.generation) in present
        ]
        known = {(each.base, each.generation): each for each in partition.segments}
        self._missing = {known[each] for each in known.keys() - set(present)}
        for each in self._missing:
            problem = f"{each.path} is missing; restore it, or run mainstem repair"
            self.findings.append(f"{partition.place}: {problem}")
        if partition.segments:
            self._extend(partition.segments[-1])
        if self._untouchable:
            return
        for base, generation in present:
            if (base, generation) in known:
                continue
            segment = partition.empty_segment(base, now_ms(), generation)
            segment.created = True
            if (base, generation) in gone:
                self._outdated.append(segment)
            elif base < partition.end:
                # Left by a compaction that was never committed, unless nothing else is left.
                if not self._missing:
                    self._outdated.append(segment)
            elif base == partition.end:
                partition.segments.append(segment)
                self._extend(segment)
            else:
                reason = f"offsets {partition.end} to {base - 1} before it are missing"
                self._leftovers.append((segment, 0, reason))
        # A power cut may lose events before the new start; their offsets are not reused.
        partition.end = max(partition.end, partition.start)
        # A segment whose base offset is before them is not appended to either.
        empty = {each for each in partition.segments if not each.size and each.base < partition.end}
        partition.segments = [each for each in partition.segments if each not in empty]
        self._outdated += empty

    def _extend(self, segment: Segment) -> None:
        """Read a segment from its recovery point."""
        if segment in self._missing:
            self._untouchable = True
            return
        try:
            segment.make_ready()
        except DamagedLog as error:
            # The segment ends at its recovery point; bytes after it are left alone.
            self._untouchable = True
            self.findings.append(f"{self.partition.place}: {error}")
            return
        if segment.index.full:
            place = segment.place(segment.index.open_position)
            self.findings.append(f"{place} ({self.partition.place}): a batch header is damaged")
        file = segment.file
        while True:
            window = file.pread(_WINDOW, segment.size)
            reason = self._accept_window(segment, window)
            if reason or len(window) < _WINDOW:
                break
        if segment.size < file.size():
            self._leftovers.append((segment, segment.size, reason or "a batch is cut off"))

    def _accept_window(self, segment: Segment, window: bytes) -> str:
        """Accept the batches of a part of the segment.

        Return why the next batch is refused; an empty string if none is.
        """
        partition = self.partition
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
            if reason := self._out_of_place(header):
                return reason
            batch = view[position : position + header.size]
            partition.accept(segment, (batch,))
            self.scanned_bytes += header.size
            position += header.size
        return "" if len(window) == _WINDOW or position == len(view) else "a batch is cut off"

    def _out_of_place(self, header: BatchHeader) -> str:
        """Return why a complete batch does not continue the log; an empty string if it does."""
        due = self.partition.end
        if header.base_offset != due:
            return f"offset {header.base_offset} stands where {due} is due"
        if header.epoch != self.partition.epoch:
            return f"left behind by an earlier process (epoch {header.epoch})"
        if header.base_offset >= self._limit:
            return "it was appended together with events that are not there"
        return ""

    def quarantine(self) -> bool:
        """Copy unusable bytes to quarantine, and report them; return whether there were any."""
        copied = False
        for segment, position, reason in self._leftovers:
            data = segment.file.pread(segment.file.size() - position, position)
            if not data.strip(b"\0"):
                # Reserved space that was never written.
                continue
            name = quarantine(self._files, f"{segment.path.replace('/', '_')}@{position}", data)
            self.findings.append(
                f"{segment.place(position)} ({self.partition.place}, offset {self.partition.end}): "
                f"{reason}; {len(data)} bytes were moved to {QUARANTINE}/{name}"
            )
            copied = True
        return copied

    def settle(self, *, sync: bool) -> None:
        """Truncate bytes that are not part of the log; ``sync``: make the rest durable."""
        partition = self.partition
        if not self._untouchable:
            for segment, position, _ in self._leftovers:
                if segment in partition.segments:
                    segment.file.truncate(position)
                else:
                    self._outdated.append(segment)
            partition.reveal(partition.end)
            for segment in (*self._outdated, *partition.drop_before(partition.start)):
                segment.remove(self._files)
            for segment in partition.segments:
                if segment.created and segment not in self._missing:
                    segment.save_index(sync=sync)
                    if sync:
                        segment.sync(segment.size)
            if sync and self._files.names(partition.directory):
                self._files.sync_dir(partition.directory)
        partition.saved = manifest.encode_partition(partition.record())


def segment_names(files: Files, directory: str) -> Iterator[tuple[int, int]]:
    """Yield (base offset, generation) of each segment in a directory, from its file name."""
    for name in files.names(directory):
        base, _, generation = name.removesuffix(".seg").partition("-")
        if name.endswith(".seg") and base.isdigit() and generation.isdigit():
            yield int(base), int(generation)


def quarantine(files: Files, name: str, data: bytes) -> str:
    """Write bytes to a new file in quarantine; return its name."""
    taken = files.names(QUARANTINE)
    number, free = 1, name
    while free in taken:
        file = files.open(f"{QUARANTINE}/{free}")
        if data.startswith(file.pread(file.size(), 0)):
            # Written by a recovery that was interrupted.
            break
        number += 1
        free = f"{name}.{number}"
    kept = files.open(f"{QUARANTINE}/{free}", create=True)
    kept.pwrite(data, 0)
    kept.sync()
    return free
