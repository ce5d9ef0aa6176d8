"""The log on disk: partitions of segments, one write-ahead log, one lock.

The life of an append under the ``fsync`` policy: space is reserved in the write-ahead log, the
batch is stamped with its offset and written into its segment (page cache only), an entry joins
the write-ahead log's next write, and the group commit makes it durable and visible. Under ``disk``
the segment is written and that is all; only the first write since a checkpoint leaves a note in
the write-ahead log, so that recovery knows where to look. ``upkeep`` checkpoints, retains and
compacts; ``recovery`` brings the directory back after an unclean end.

Files: ``manifest`` (and its copy), ``wal/``, ``partitions/<topic id>-<number>/`` with segments and
their indexes, ``quarantine/`` with what recovery could not use, ``lock``.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import msgspec

from mainstem.core.errors import (
    Closed,
    DamagedLog,
    InvalidSetting,
    MainstemError,
    StorageFull,
    UnknownPartition,
)
from mainstem.core.policies import Durability, TopicSettings
from mainstem.log.commits import Committer
from mainstem.log.durable import AT_ONCE
from mainstem.log.files import FAULTS, Files, RealFiles, refusal
from mainstem.log.handles import Handles
from mainstem.log.memory import MemoryPartition
from mainstem.log.partition import DiskPartition
from mainstem.log.port import (
    Appended,
    Bounds,
    Durable,
    PartitionId,
    Slice,
    TimedOffset,
    WritableBatch,
)
from mainstem.log.recovery import Recovered, Report, recover
from mainstem.log.segment import EMPTY, Segment
from mainstem.log.upkeep import Upkeep
from mainstem.log.wal import PART_OVERHEAD, Kind, Part, encode_parts
from mainstem.log.watches import Wake, call, nothing_to_take_back

Partition = DiskPartition | MemoryPartition


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the log on disk works; the defaults suit one machine with an SSD."""

    max_open_files: int = 4096
    """Segments kept open at most; more are opened again when needed."""
    large_batch_bytes: int = 256 * 1024
    """A batch of this size syncs its segment instead of being written twice."""
    wal_step_bytes: int = 1024 * 1024
    """Space that the write-ahead log reserves at a time."""
    checkpoint_wal_bytes: int = 32 * 1024 * 1024
    """A checkpoint is made when the write-ahead log reaches this size,"""
    checkpoint_bytes: int = 512 * 1024 * 1024
    """or when this much was appended,"""
    checkpoint_batches: int = 200_000
    """or so many batches, since reading them again is what recovery costs."""
    sync_all_from: int = 32
    """A checkpoint of so many changed partitions syncs the file system instead of each file."""
    upkeep_ms: int = 1000
    """How often retention, compaction and the checkpoint are looked at."""
    max_memory_bytes: int = 1024 * 1024 * 1024
    """What topics with durability ``memory`` may hold together."""
    background: bool = True
    """Whether threads commit and keep up; without them whoever opened the log calls both."""


class DiskLog:
    """Implements the port ``Log`` in a directory that this process alone may use."""

    def __init__(
        self, files: Files, now_ms: Callable[[], int], options: Options, recovered: Recovered
    ) -> None:
        self._files = files
        self._now_ms = now_ms
        self._options = options
        self._lock = threading.Lock()
        self._handles = recovered.handles
        self._partitions: dict[PartitionId, Partition] = dict(recovered.partitions)
        self._closed = False
        self._memory_bytes = 0
        self.recovery: Report = recovered.report
        """What opening found."""
        self.committer = Committer(files, self._lock, recovered.wal)
        self.upkeep = Upkeep(
            files, self._lock, now_ms, self.committer, self._partitions, self._handles
        )
        self.upkeep.limits(
            options.checkpoint_wal_bytes,
            options.checkpoint_bytes,
            options.checkpoint_batches,
            options.sync_all_from,
        )
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
    ) -> "DiskLog":
        """Take the directory, recover what is in it, and be ready."""
        options = options or Options()
        if files is None:
            assert path is not None, "a log needs a directory, or files to stand for one"
            path.mkdir(parents=True, exist_ok=True)
            files = RealFiles(path)
        files.lock(listens, admin)
        try:
            handles = Handles(files, options.max_open_files)
            recovered = recover(
                files,
                handles,
                now_ms,
                wal_step_bytes=options.wal_step_bytes,
                sync_all_from=options.sync_all_from,
            )
            return cls(files, now_ms, options, recovered)
        except BaseException as error:
            files.unlock()
            if isinstance(error, OSError) and error.errno in FAULTS:
                raise refusal(error, "opening the log") from error
            raise

    def close(self) -> None:
        """Commit, checkpoint and let go of the directory; whoever waits is woken."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            wakes = [wake for each in self._partitions.values() for wake in each.close()]
        self.upkeep.stop()
        self.committer.stop()
        call(wakes)
        try:
            if self.committer.failed is None:
                self.upkeep.checkpoint()
        except OSError as error:
            raise refusal(error, "making the checkpoint that saves a recovery") from error
        finally:
            with self._lock:
                self._partitions.clear()
            self._handles.clear()
            self._files.unlock()

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create the partition, or give it new settings; ``topic`` is its name in messages."""
        with self._lock:
            self._check_writable()
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
                self._note(Kind.ENSURE, msgspec.msgpack.encode((partition, topic, settings)))
                if not isinstance(known, DiskPartition):
                    known = DiskPartition(self._files, self._handles, partition, topic, settings)
                elif settings.durability is Durability.FSYNC is not known.settings.durability:
                    self._sync_with_next_commit(known)
                self.upkeep.changed(known)
            known.settings = settings
            self._partitions[partition] = known

    def _sync_with_next_commit(self, partition: DiskPartition) -> None:
        """Make what was appended under ``disk`` durable: later events must not outlive it."""
        group = self.committer.gather()
        try:
            for segment in partition.segments:
                if segment.size > segment.synced_size:
                    group.direct[segment.path] = segment.file
        except OSError as error:
            raise refusal(error, f"making {partition.place} durable") from error
        if partition.names_changed:
            group.renamed[partition.directory] = partition

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions and all they hold; unknown ones are passed over."""
        wakes: list[Wake] = []
        with self._lock:
            self._check_writable()
            known = [each for each in partitions if each in self._partitions]
            if not known:
                return
            self._note(Kind.DELETE, msgspec.msgpack.encode(known))
            for each in known:
                partition = self._partitions.pop(each)
                wakes += partition.close()
                if isinstance(partition, DiskPartition):
                    self.upkeep.discard(partition)
            self.committer.gather()
        call(wakes)

    def append(
        self, batches: Sequence[tuple[PartitionId, WritableBatch]], *, together: bool = True
    ) -> Appended:
        """Append checked batches, all or nothing, and make them visible together."""
        if len(batches) == 1:
            ((partition, batch),) = batches
            return self._append_one(partition, batch)
        return self._append_together(batches) if together else self._append_apart(batches)

    def _append_one(self, partition_id: PartitionId, batch: WritableBatch) -> Appended:
        """Append a batch that comes alone, as most do: the shortest way there is."""
        wakes: list[Wake] = []
        with self._lock:
            if self.committer.failed is not None or self._closed:
                self._check_writable()
            partition = self._partitions.get(partition_id) or self._find(partition_id)
            offsets, durable = self._append_run(partition, (batch,), wakes)
            starts = [partition.start]
        if wakes:
            call(wakes)
        return Appended(offsets, durable, starts)

    def _append_apart(self, batches: Sequence[tuple[PartitionId, WritableBatch]]) -> Appended:
        """Append what stands for itself: a write for each partition, and one commit for all."""
        offsets: list[int] = []
        starts: list[int] = []
        wakes: list[Wake] = []
        durable: Durable = AT_ONCE
        with self._lock:
            if self.committer.failed is not None or self._closed:
                self._check_writable()
            for partition_id, run in _runs(batches):
                try:
                    partition = self._partitions.get(partition_id) or self._find(partition_id)
                    given, promise = self._append_run(partition, run, wakes)
                except MainstemError:
                    if not offsets:
                        raise
                    break
                offsets += given
                starts += [partition.start] * len(given)
                if promise is not AT_ONCE:
                    durable = promise
                if len(given) < len(run):
                    break
        if wakes:
            call(wakes)
        return Appended(offsets, durable, starts)

    def _append_run(
        self, partition: Partition, batches: Sequence[WritableBatch], wakes: list[Wake]
    ) -> tuple[list[int], Durable]:
        """Append what goes into one segment, in one write; adds whom to wake for it."""
        if isinstance(partition, MemoryPartition):
            self._check_memory(sum(map(len, batches)))
            offsets = [partition.append(batch) for batch in batches]
            wakes += partition.advance(partition.end)
            return offsets, AT_ONCE
        large = self._options.large_batch_bytes
        if len(batches) > 1:
            batches = partition.fitting(batches, large)
        offsets = partition.stamp(batches)
        data = batches[0] if len(batches) == 1 else b"".join(batches)
        synced = partition.settings.durability == "fsync" or partition.tail < partition.end
        logged = synced and len(batches[0]) < large
        segment = self._write(partition, data, logged, len(batches) > 1)
        position = segment.size
        partition.accept(segment, batches)
        self.upkeep.appended(partition, len(data), len(batches))
        if synced:
            self._promise(partition, segment, position, data, logged)
            return offsets, self.committer.group.commit
        partition.reveal_at(partition.end, segment, segment.size)
        wakes += partition.watches.due(partition.end)
        return offsets, AT_ONCE

    def _write(
        self, partition: DiskPartition, data: WritableBatch | bytes, logged: bool, several: bool
    ) -> Segment:
        """Write what does not count yet; if it is logged, the write-ahead log has room for it."""
        try:
            if not self.committer.wal.opened:
                self._begin()
            if logged:
                self.committer.wal.reserve(len(data) + PART_OVERHEAD)
            elif not partition.touched:
                self._touch(partition)
            segment = partition.room_for(len(data), self._now_ms)
            segment.write(data)
        except OSError as error:
            self._clear_end(partition, several)
            raise refusal(error, f"appending to {partition.place}") from error
        return segment

    def _clear_end(self, partition: DiskPartition, several: bool) -> None:
        """Take back what a write left when it failed half-way.

        Of several batches some may be whole, and a crash must not bring back what was refused: that
        has to be durable. Of a single one no more than a piece is left, which recovery knows from a
        batch, and would report as damage.
        """
        try:
            for segment in partition.segments[-1:]:
                segment.clear_end(sync=several)
        except OSError as error:
            if several:
                raise self.committer.fail(error, f"appending to {partition.place}") from error

    def _promise(
        self,
        partition: DiskPartition,
        segment: Segment,
        position: int,
        data: WritableBatch | bytes,
        logged: bool,
    ) -> None:
        """Leave durability and visibility to the group commit."""
        group = self.committer.gather()
        if logged:
            self.committer.wal.add_batches(
                partition.key, segment.base, segment.generation, position, data
            )
        else:
            group.direct[segment.path] = segment.file
            if partition.names_changed:
                group.renamed[partition.directory] = partition
        group.tails[partition] = (partition.end, segment, segment.size)

    def _append_together(self, batches: Sequence[tuple[PartitionId, WritableBatch]]) -> Appended:
        with self._lock:
            self._check_writable()
            found = [(self._find(partition), batch) for partition, batch in batches]
            try:
                segments = self._reserve_together(found)
            except OSError as error:
                raise refusal(error, f"appending {len(batches)} batches together") from error
            group = self.committer.gather()
            offsets: list[int] = []
            parts: list[Part] = []
            for partition, batch in found:
                offsets.append(partition.end)
                if isinstance(partition, MemoryPartition):
                    partition.append(batch)
                    group.memory_tails[partition] = partition.end
                    continue
                segment = segments[partition]
                partition.stamp((batch,))
                position = segment.size
                partition.accept(segment, (batch,))
                self.upkeep.appended(partition, len(batch))
                copy = bytes(batch)
                power = partition.settings.durability is Durability.FSYNC
                where = (partition.key, segment.base, segment.generation, position)
                parts.append(Part(*where, power, copy))
                group.deferred.append((segment, position, copy))
                group.tails[partition] = (partition.end, segment, segment.size)
            if parts:
                self.committer.wal.add(Kind.APPEND, encode_parts(parts))
            synced = any(each.settings.durability is Durability.FSYNC for each, _ in found)
            # Without fsync the note in the page cache is enough, but becoming visible together
            # still goes through the group: one way to do it, not two.
            durable, starts = group.commit, [each.start for each, _ in found]
        if not synced and not self._options.background:
            self.committer.commit()
        return Appended(offsets, durable, starts)

    def _reserve_together(
        self, found: Sequence[tuple[Partition, WritableBatch]]
    ) -> dict[DiskPartition, Segment]:
        """Make sure of all the space that an append needs, before anything of it is accepted."""
        in_memory = [len(batch) for each, batch in found if isinstance(each, MemoryPartition)]
        if in_memory:
            self._check_memory(sum(in_memory))
        sizes: dict[DiskPartition, int] = {}
        for partition, batch in found:
            if isinstance(partition, DiskPartition):
                sizes[partition] = sizes.get(partition, 0) + len(batch)
        if sizes and not self.committer.wal.opened:
            self._begin()
        self.committer.wal.reserve(sum(sizes.values()) + PART_OVERHEAD * (len(found) + 1))
        segments: dict[DiskPartition, Segment] = {}
        for partition, size in sizes.items():
            segments[partition] = partition.room_for(size, self._now_ms)
            segments[partition].reserve(size)
        return segments

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Return whole batches from the one that holds ``offset`` (or the next one kept) on."""
        while True:
            with self._lock:
                found = self._find(partition)
                if isinstance(found, MemoryPartition):
                    return found.read(offset, max_bytes)
                readable = found.readable(offset)
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
        """Return if retention or compaction took the segment away meanwhile: then look again."""
        with self._lock:
            found = self._find(partition)
            if isinstance(found, DiskPartition) and segment in found.segments:
                raise DamagedLog(
                    f"{segment.path} of {found.place} cannot be read ({error}); check the disk, "
                    "then run mainstem verify"
                ) from error

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return what the partition holds now."""
        with self._lock:
            return self._find(partition).bounds()

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Return the first visible event at or after a time, None if there is none."""
        while True:
            with self._lock:
                found = self._find(partition)
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
        """Call ``wake`` once, from any thread, as soon as the tail is past ``offset``."""
        with self._lock:
            watched = self._find(partition)
            if offset >= watched.tail:
                watches = watched.watches
                token = watches.add(offset, wake)

                def take_back() -> None:
                    with self._lock:
                        watches.remove(token)

                return take_back
        wake()
        return nothing_to_take_back

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Delete what is before ``start``, and what is at ``end`` or after (a new epoch begins)."""
        if end is not None:
            self._cut_end(partition, end)
        with self._lock:
            self._check_writable()
            found = self._find(partition)
            if start is not None:
                if isinstance(found, MemoryPartition):
                    found.cut(start=start)
                else:
                    self.upkeep.cut_start(found, start)
            return found.bounds()

    def _cut_end(self, partition: PartitionId, end: int) -> None:
        while True:
            self.committer.commit()
            with self._lock:
                self._check_writable()
                found = self._find(partition)
                if isinstance(found, MemoryPartition):
                    found.cut(end=end)
                    return
                if found.tail == found.end:
                    try:
                        self.upkeep.cut_end(found, end)
                    except OSError as error:
                        raise refusal(error, f"cutting {found.place}") from error
                    break
        self.committer.commit()

    def disk_partitions(self) -> list[DiskPartition]:
        """Return the partitions that have files, for inspection and repair."""
        with self._lock:
            return [each for each in self._partitions.values() if isinstance(each, DiskPartition)]

    def _find(self, partition: PartitionId) -> Partition:
        found = self._partitions.get(partition)
        if found is None:
            if self._closed:
                raise Closed("the log has been closed")
            raise UnknownPartition(partition.topic_id, partition.number)
        return found

    def _check_writable(self) -> None:
        if self.committer.failed is not None:
            raise self.committer.failed
        if self._closed:
            raise Closed("the log has been closed")

    def _check_memory(self, length: int) -> None:
        """Refuse what would make topics in memory larger together than they may be."""
        self._memory_bytes += length
        limit = self._options.max_memory_bytes
        if self._memory_bytes <= limit:
            return
        # Counted upwards only; what retention and cuts freed is found out when it matters.
        memory = [each for each in self._partitions.values() if isinstance(each, MemoryPartition)]
        self._memory_bytes = sum(each.size_bytes for each in memory) + length
        if self._memory_bytes > limit:
            self._memory_bytes -= length
            raise StorageFull(
                f"topics with durability memory may hold {limit} bytes together, and this append "
                f"would make it {self._memory_bytes + length}; trim them, or set retention_bytes"
            )

    def _begin(self) -> None:
        """Tell recovery, durably, that what it finds may be from us; raises OSError if full."""
        wal = self.committer.wal
        wal.reserve(0)
        wal.add(Kind.OPENED, [])
        self.committer.flush()
        try:
            wal.file.sync()
        except OSError as error:
            raise self.committer.fail(error, "syncing the write-ahead log") from error
        wal.opened = True

    def _touch(self, partition: DiskPartition) -> None:
        """Tell recovery, before it is needed, that this partition's end must be looked at."""
        self.committer.wal.reserve(PART_OVERHEAD)
        self.committer.wal.add(Kind.TOUCH, [partition.key])
        self.committer.flush()
        partition.touched = True
        # Also if the append is refused after all: the next checkpoint gives this note up.
        self.upkeep.changed(partition)

    def _note(self, kind: Kind, payload: bytes) -> None:
        """Put a change of the partitions themselves into the write-ahead log."""
        try:
            self.committer.wal.reserve(len(payload))
        except OSError as error:
            raise refusal(error, "noting a change of topics") from error
        self.committer.wal.add(kind, [payload])
        self.committer.flush()


def _runs(
    batches: Sequence[tuple[PartitionId, WritableBatch]],
) -> Iterator[tuple[PartitionId, Sequence[WritableBatch]]]:
    """Yield the batches of each partition, which follow one another."""
    for partition, run in groupby(batches, itemgetter(0)):
        yield partition, [batch for _, batch in run]


def _place(partition: PartitionId, topic: str) -> str:
    return f"partition {partition.number} of topic {topic!r}"
