"""The log on disk: partitions of segments, one write-ahead log, one lock.

An append under the ``fsync`` policy: space is reserved in the write-ahead log, the batch gets its
offset and is written to its segment (page cache only), an entry is added to the write-ahead log,
and the group commit makes it durable and visible. Under ``disk`` only the segment is written; the
first write after a checkpoint adds a TOUCH entry, so that recovery scans that partition. All this
is in ``appender``; ``upkeep`` runs retention, compaction and checkpoints; ``recovery`` restores the
directory after an unclean stop.

Files: ``manifest`` (and its copy), ``wal/``, ``partitions/<topic id>-<number>/`` with segments and
their indexes, ``quarantine/`` with what recovery could not use, ``lock``.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from mainstem.core.errors import DamagedLog, InvalidSetting
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.appender import Appender
from mainstem.log.commit.checkpoint import Checkpoints
from mainstem.log.commit.deleted_files import DeletedFiles
from mainstem.log.commit.group_commit import Committer
from mainstem.log.commit.wal import Kind
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import FAULTS, Files, RealFiles, refusal
from mainstem.log.memory import MemoryPartition
from mainstem.log.options import Options
from mainstem.log.partition_map import PartitionMap
from mainstem.log.port import Appended, Batches, Bounds, PartitionId, Slice, TimedOffset
from mainstem.log.recovery.recovery import Recovered, Report, recover
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.needed_offsets import Needed
from mainstem.log.segments.segment import EMPTY, Segment
from mainstem.log.tail_watches import Wake, already_woken, call_all
from mainstem.log.upkeep.upkeep import Upkeep


class DiskLog:
    """Implements the port ``Log`` in a directory that this process has locked."""

    def __init__(
        self, files: Files, now_ms: Callable[[], int], options: Options, recovered: Recovered
    ) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._file_cache = recovered.file_cache
        self._partitions = PartitionMap(recovered.partitions)
        self.recovery: Report = recovered.report
        """What recovery found when the log was opened."""
        self.committer = Committer(files, self._lock, recovered.wal)
        deleted_files = DeletedFiles(files, self._lock, self.committer, self._file_cache)
        self._checkpoints = Checkpoints(
            files,
            self._lock,
            self.committer,
            self._partitions,
            deleted_files,
            options,
        )
        self.upkeep = Upkeep(
            files,
            self._lock,
            now_ms,
            self.committer,
            self._partitions,
            self._checkpoints,
            deleted_files,
        )
        self._appender = Appender(
            self._lock,
            self._partitions,
            self.committer,
            self._checkpoints,
            now_ms,
            options,
        )
        self.written = _Written(self)
        """The view that shows batches before they are durable; see ``Log.written``."""
        if options.background:
            self.committer.start()
            self.upkeep.start(options.upkeep_ms)

    @classmethod
    def open(
        cls,
        path: Path | None = None,
        *,
        now_ms: Callable[[], int],
        files: Files | None = None,
        options: Options | None = None,
        listens: str | None = None,
        admin: str | None = None,
        brief: bool = False,
    ) -> "DiskLog":
        """Lock the directory and recover its contents.

        ``files``: used instead of the directory ``path``. The lock file tells other processes the
        addresses ``listens`` (for Kafka clients) and ``admin`` and, with ``brief``, that this
        process ends soon.
        """
        options = options or Options()
        if files is None:
            assert path is not None, "a log needs a directory, or files to stand for one"
            path.mkdir(0o750, parents=True, exist_ok=True)
            files = RealFiles(path, brief=brief)
        files.lock(listens, admin)
        try:
            file_cache = FileCache(files, options.max_open_files)
            recovered = recover(
                files,
                file_cache,
                now_ms,
                wal_step_bytes=options.wal_step_bytes,
                sync_all_from=options.sync_all_from,
            )
            log = cls(files, now_ms, options, recovered)
            log.committer.space.place = "the data directory" if path is None else str(path)
            return log
        except BaseException as error:
            files.unlock()
            if isinstance(error, OSError) and error.errno in FAULTS:
                raise refusal(error, "opening the log") from error
            raise

    def close(self) -> None:
        """Commit, make a checkpoint, unlock the directory, and call all watches."""
        with self._lock:
            if self._partitions.is_closed:
                return
            self._partitions.is_closed = True
            wakes = [wake for each in self._partitions.values() for wake in each.close()]
        self.upkeep.stop()
        self.committer.stop()
        call_all(wakes)
        try:
            if self.committer.failed is None:
                self.upkeep.checkpoint()
        except OSError as error:
            raise refusal(error, "making the checkpoint that saves a recovery") from error
        finally:
            with self._lock:
                self._partitions.clear()
            self._file_cache.clear()
            self._files.unlock()

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create a partition, or change its settings; ``topic``: the name to use in messages."""
        with self._lock:
            self._appender.check_writable()
            known = self._partitions.get(partition)
            memory = settings.durability is Durability.MEMORY
            if known is not None and isinstance(known, MemoryPartition) != memory:
                raise InvalidSetting(
                    f"topic {topic!r} cannot move between memory and disk; create another topic "
                    f"with durability {settings.durability} and copy the events"
                )
            if known is not None and known.settings == settings:
                return
            if memory:
                known = known or MemoryPartition(_place(partition, topic), settings)
            else:
                self.committer.note(Kind.ENSURE, (partition, topic, settings), "topics")
                if not isinstance(known, DiskPartition):
                    known = DiskPartition(self._files, self._file_cache, partition, topic, settings)
                elif settings.durability is Durability.FSYNC is not known.settings.durability:
                    self._sync_with_next_commit(known)
                self._checkpoints.changed(known)
            known.settings, known.upkept = settings, None
            self._partitions[partition] = known

    def _sync_with_next_commit(self, partition: DiskPartition) -> None:
        """Let the next commit sync events that were appended before the partition got ``fsync``."""
        group = self.committer.gather()
        try:
            for segment in partition.segments:
                if segment.size > segment.synced_size:
                    group.direct[segment.path] = segment.file
        except OSError as error:
            raise self.committer.space.refusal(
                error, f"making {partition.place} durable"
            ) from error
        if partition.names_changed:
            group.renamed[partition.directory] = partition

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions and their events; partitions that do not exist are ignored."""
        wakes: list[Wake] = []
        with self._lock:
            self._appender.check_writable()
            known = [each for each in partitions if each in self._partitions]
            if not known:
                return
            self.committer.note(Kind.DELETE, known, "topics")
            for each in known:
                partition = self._partitions.pop(each)
                wakes += partition.close()
                if isinstance(partition, DiskPartition):
                    self.upkeep.discard(partition)
            self.committer.gather()
        call_all(wakes)

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append checked batches, all or nothing, and make them visible together."""
        return self._appender.append(batches, together=together, lazy=lazy)

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches, from the one that contains ``offset`` (or the next one) on."""
        return self._read(partition, offset, max_bytes)

    def _read(
        self, partition: PartitionId, offset: int, max_bytes: int, *, written: bool = False
    ) -> Slice:
        while True:
            with self._lock:
                found = self._partitions.find(partition)
                if isinstance(found, MemoryPartition):
                    return found.read(offset, max_bytes)
                readable = found.readable(offset, written=written)
            for segment, limit in readable:
                try:
                    data = segment.read(offset, limit, max_bytes)
                except OSError as error:
                    self._check_gone(partition, segment, error)
                    break
                if data.length:
                    return data
            else:
                return EMPTY

    def _check_gone(self, partition: PartitionId, segment: Segment, error: OSError) -> None:
        """Raise DamagedLog for a missing segment, unless retention or compaction removed it."""
        with self._lock:
            found = self._partitions.find(partition)
            if isinstance(found, DiskPartition) and segment in found.segments:
                raise DamagedLog(
                    f"{segment.path} of {found.place} cannot be read ({error}); check the disk, "
                    "then run mainstem verify"
                ) from error

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the current offsets and size of a partition."""
        with self._lock:
            return self._partitions.find(partition).bounds()

    def _bounds_written(self, partition: PartitionId) -> Bounds:
        with self._lock:
            found = self._partitions.find(partition)
            if isinstance(found, MemoryPartition):
                return found.bounds()
            return found.bounds(written=True)

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Return offset and time of the first readable event at or after a time, or None."""
        while True:
            with self._lock:
                found = self._partitions.find(partition)
                if isinstance(found, MemoryPartition):
                    return found.offset_at(timestamp_ms)
                start = found.start
                readable = found.all_readable()
            for segment, limit in readable:
                if segment.newest_ms < timestamp_ms:
                    continue
                try:
                    answer = segment.find_time(timestamp_ms, limit, start)
                except OSError as error:
                    self._check_gone(partition, segment, error)
                    break
                if answer is not None:
                    return answer
            else:
                return None

    def watch(self, partition: PartitionId, offset: int, wake: Wake) -> Callable[[], None]:
        """Call ``wake`` once, from any thread, when the partition's tail has passed ``offset``."""
        return self._watch(partition, offset, wake)

    def _watch(
        self, partition: PartitionId, offset: int, wake: Wake, *, written: bool = False
    ) -> Callable[[], None]:
        with self._lock:
            watched = self._partitions.find(partition)
            tail, watches = watched.tail, watched.watches
            if written and isinstance(watched, DiskPartition):
                tail, watches = watched.written, watched.written_watches
            # Once closing has begun, new watches are never called.
            if offset >= tail and not self._partitions.is_closed:
                token = watches.add(offset, wake)
                if tail < watched.end:
                    self.committer.hasten()

                def take_back() -> None:
                    with self._lock:
                        watches.remove(token)

                return take_back
        wake()
        return already_woken

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Delete events before ``start``, or at and after ``end`` (then a new epoch begins)."""
        if end is not None:
            self._cut_end(partition, end)
        with self._lock:
            self._appender.check_writable()
            found = self._partitions.find(partition)
            if start is not None:
                if isinstance(found, MemoryPartition):
                    found.cut(start=start)
                else:
                    self.upkeep.segment_changes.cut_start(found, start)
            return found.bounds()

    def thin(self, partition: PartitionId, before: int, but: Collection[int]) -> None:
        """Allow upkeep to drop the events before an offset, except those at some offsets."""
        needed = Needed(before, but)
        with self._lock:
            found = self._partitions.find(partition)
            if isinstance(found, MemoryPartition):
                found.thin(needed)
            else:
                found.needed, found.upkept = needed, None

    def _cut_end(self, partition: PartitionId, end: int) -> None:
        while True:
            self.committer.commit()
            with self._lock:
                self._appender.check_writable()
                found = self._partitions.find(partition)
                if isinstance(found, MemoryPartition):
                    found.cut(end=end)
                    return
                if found.tail == found.end:
                    try:
                        self.upkeep.segment_changes.cut_end(found, end)
                    except OSError as error:
                        raise refusal(error, f"cutting {found.place}") from error
                    break
        self.committer.commit()

    def disk_partitions(self) -> list[DiskPartition]:
        """Return the partitions that have files, for inspection and repair."""
        with self._lock:
            return [each for each in self._partitions.values() if isinstance(each, DiskPartition)]


class _Written:
    """The view that shows batches before they are durable; see ``Log.written``."""

    def __init__(self, log: DiskLog) -> None:
        self._log = log

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        return self._log._read(partition, offset, max_bytes, written=True)

    def bounds(self, partition: PartitionId) -> Bounds:
        return self._log._bounds_written(partition)

    def watch(self, partition: PartitionId, offset: int, wake: Wake) -> Callable[[], None]:
        return self._log._watch(partition, offset, wake, written=True)


def _place(partition: PartitionId, topic: str) -> str:
    return f"partition {partition.number} of topic {topic!r}"
