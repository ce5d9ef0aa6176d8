"""What the log does on the side: checkpoints, retention, compaction, and deleting files.

A checkpoint bounds what recovery has to read. Its order is what makes it safe:

1. a new write-ahead file is begun, so that older files hold only what is before it;
2. what was gathered is committed, the segments written since the last checkpoint are synced, and
   files that are not needed any more are removed;
3. the manifest is replaced, and says that recovery begins at the new write-ahead file;
4. only then are the older files given up.

Files that are not part of the log any more are removed only after the write-ahead log says so
durably, and before a checkpoint gives up what it says: a crash in between leaves files too many,
never too few, and recovery removes them.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable

import msgspec

from mainstem.core.errors import MainstemError
from mainstem.core.topic_settings import TopicSettings
from mainstem.log import manifest, wal
from mainstem.log.backoff import Backoff
from mainstem.log.compaction import compact, old_enough, worth_compacting
from mainstem.log.disk_partition import PARTITIONS, DiskPartition, PartitionRecord
from mainstem.log.file_cache import FileCache
from mainstem.log.files import Files, refusal
from mainstem.log.group_commit import Committer
from mainstem.log.memory import MemoryPartition
from mainstem.log.partition_map import Partition, PartitionMap
from mainstem.log.port import PartitionId
from mainstem.log.segment import Segment
from mainstem.log.segment_rewrite import batches_before, write_segment
from mainstem.log.wal import Kind

_CHECKPOINT = "checkpoint"

_logger = logging.getLogger("mainstem.log")


class Upkeep:
    """Shares the log's lock; methods that say so are called under it."""

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        now_ms: Callable[[], int],
        committer: Committer,
        partitions: PartitionMap,
        file_cache: FileCache,
    ) -> None:
        self._files = files
        self._lock = lock
        self._now_ms = now_ms
        self._committer = committer
        self._partitions = partitions
        self._file_cache = file_cache
        self._checkpointing = threading.RLock()
        self._ticking = threading.Lock()
        self._dirty: dict[PartitionId, DiskPartition] = {}
        self._trash: list[str] = []
        """Files to remove once it is durable that they are not needed."""
        self._emptied: list[str] = []
        """Directories of deleted partitions, to be removed after their files."""
        self._spare: str | None = None
        self._bytes = self._batches = 0
        self._overdue = False
        self._max_wal_bytes = self._max_bytes = self._max_batches = self._many = 0
        self._retries = Backoff()
        """Of what costs much: the checkpoint, and compaction, partition by partition."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_error: MainstemError | None = None
        """Why the last round of upkeep failed, if it did; it is tried again."""

    def limits(self, wal_bytes: int, appended_bytes: int, batches: int, many: int) -> None:
        """Say after how much a checkpoint is due, and for how many partitions it syncs at once."""
        self._max_wal_bytes = wal_bytes
        self._max_bytes = appended_bytes
        self._max_batches = batches
        self._many = many

    def start(self, every_ms: int) -> None:
        """Keep up in a thread of its own from now on."""

        def run() -> None:
            while not self._stopping.wait(every_ms / 1000):
                self._try_tick()

        self._thread = threading.Thread(target=run, name="mainstem-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it is doing is finished first."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def appended(self, partition: DiskPartition, size: int, batches: int = 1) -> None:
        """Count what a checkpoint would save recovery from reading; under the lock."""
        if not partition.is_dirty:
            self.changed(partition)
        self._bytes += size
        self._batches += batches

    def changed(self, partition: DiskPartition) -> None:
        """Take note that the manifest is behind; under the lock."""
        self._dirty[partition.id] = partition
        partition.is_dirty = True

    def discard(self, partition: DiskPartition) -> None:
        """Delete the files of a partition once that is durable; under the lock."""
        self._dirty.pop(partition.id, None)
        self._retries.forget(partition.id)
        for segment in partition.segments:
            self._throw_away(segment)
        self._emptied.append(partition.directory)

    @property
    def due(self) -> bool:
        """Whether enough has gathered for a checkpoint."""
        return (
            self._overdue
            or self._committer.wal.used >= self._max_wal_bytes
            or self._bytes >= self._max_bytes
            or self._batches >= self._max_batches
        )

    def tick(self) -> None:
        """Do whatever is due now; what fails for one partition does not stop the others.

        Compacting all of them may take long: between two it is seen to that a checkpoint that
        became due is made, and that a log that is being closed does not wait for the rest.
        """
        self._round(at_once=True)

    def _round(self, *, at_once: bool) -> None:
        with self._ticking:
            self._retries.begin_round(at_once=at_once)
            self._tick()

    def _tick(self) -> None:
        try:
            self._files.check_there()
        except OSError as error:
            raise self._committer.fail(error, "looking after the log") from error
        self._committer.space.look()
        now_ms = self._now_ms()
        failed: Exception | None = None
        stuck: Exception | None = None
        with self._lock:
            partitions = list(self._partitions.values())
        for partition in partitions:
            if self._stopping.is_set():
                break
            try:
                self._keep_up(partition, now_ms)
            except OSError as error:
                failed = refusal(error, "retaining or compacting events")
            except Exception as error:
                failed = error
            stuck = stuck or self._try_checkpoint()
        stuck = stuck or self._try_checkpoint()
        # Also if there is no space for a checkpoint: this is what makes some.
        self._empty_trash()
        failed = stuck or failed
        if failed is not None:
            raise failed

    def _try_checkpoint(self) -> Exception | None:
        """Make a checkpoint if one is due; return why that failed, if it did."""
        if not self.due or self._stopping.is_set() or self._retries.rests(_CHECKPOINT):
            return None
        try:
            self.checkpoint()
        except Exception as error:
            self._retries.failed(_CHECKPOINT)
            return refusal(error, "making a checkpoint") if isinstance(error, OSError) else error
        self._retries.forget(_CHECKPOINT)
        return None

    def _keep_up(self, partition: Partition, now_ms: int) -> None:
        settings = partition.settings
        if isinstance(partition, MemoryPartition):
            if settings.expire_ms is not None:
                with self._lock:
                    partition.expire(now_ms)
            return
        if settings.close_ms or settings.expire_ms or settings.expire_bytes:
            self._retain(partition, now_ms)
        if settings.compact and not self._retries.rests(partition.id):
            try:
                self._compact(partition, now_ms)
            except Exception:
                self._retries.failed(partition.id)
                raise
            self._retries.forget(partition.id)

    def _try_tick(self) -> None:
        try:
            self._round(at_once=False)
            if not self._retries.left_out:
                self.last_error = None
        except Exception as error:
            # Neither a full or failing disk nor a bug may end upkeep: it goes on when it can.
            reason = _as_told(error)
            if str(reason) != str(self.last_error):
                foreseen = isinstance(error, OSError | MainstemError)
                _logger.warning(
                    "upkeep of the log: %s", reason, exc_info=None if foreseen else error
                )
            self.last_error = reason

    def checkpoint(self) -> None:
        """Bring the manifest up to date, and give up the write-ahead log before it."""
        with self._checkpointing:
            number = self._committer.wal.number + 1
            spare, self._spare = self._spare, None
            place, file = wal.prepare(self._files, number, spare)
            with self._lock:
                self._committer.flush()
                sequence = self._committer.wal.sequence
                self._committer.wal.switch(place, file)
                dirty, self._dirty = self._dirty, {}
                self._bytes = self._batches = 0
                for each in dirty.values():
                    each.is_dirty = each.touched = False
            try:
                self._committer.commit()
                if self._committer.failed is not None:
                    return
                self._save(dirty)
                # After the manifest nothing would tell a later process what is to be removed.
                self._empty_trash()
                with self._lock:
                    known = [getattr(each, "saved", None) for each in self._partitions.values()]
                manifest.write(
                    self._files, number, sequence, [each for each in known if each is not None]
                )
            except BaseException:
                # Whatever it was: the next manifest must not pass over what was not saved.
                with self._lock:
                    for each in dirty.values():
                        self.changed(each)
                    self._overdue = self._committer.failed is None
                raise
            self._overdue = False
            self._give_up_before(number)

    def _save(self, dirty: dict[PartitionId, DiskPartition]) -> None:
        """Make the recovery points of changed partitions durable."""
        if len(dirty) >= self._many:
            self._save_at_once(list(dirty.values()))
            return
        names: dict[DiskPartition, int] = {}
        for partition in dirty.values():
            record = self._capture(partition, names)
            partition.saved = manifest.encode_partition(record)
        self._sync_names(names)

    def _save_at_once(self, dirty: list[DiskPartition]) -> None:
        """Do the same for so many that one sync of the whole file system costs less."""
        with self._lock:
            described = [
                (each, each.record(), [(part, part.size) for part in each.segments])
                for each in dirty
                if each.id in self._partitions
            ]
            names = {each: each.names_made for each in dirty}
        # What is described may be in the write-ahead log only, and not even there durably.
        self._committer.commit()
        self._committer.check()
        for _, _, segments in described:
            for segment, size in segments:
                if size > segment.synced_size:
                    segment.save_index(sync=False)
        try:
            self._files.sync_all()
        except OSError as error:
            raise self._committer.fail(error, "syncing the file system") from error
        for partition, record, segments in described:
            partition.saved = manifest.encode_partition(record)
            for segment, size in segments:
                segment.synced_size = max(size, segment.synced_size)
                segment.forget_index()
        with self._lock:
            for partition, made in names.items():
                partition.names_synced = max(made, partition.names_synced)

    def _capture(
        self, partition: DiskPartition, names: dict[DiskPartition, int]
    ) -> PartitionRecord:
        """Return a recovery point, described first, synced after; its ``names`` are still to do."""
        with self._lock:
            record = partition.record()
            segments = [(each, each.size) for each in partition.segments]
            waiting = partition.tail < partition.end
            if partition.names_changed:
                names[partition] = partition.names_made
        if waiting:
            # What is described may be in the write-ahead log only, and not even there durably.
            self._committer.commit()
            self._committer.check()
        if partition.id in self._partitions:
            self._sync_segments(segments)
        return record

    def _sync_segments(self, segments: list[tuple[Segment, int]]) -> None:
        """Make segments durable up to sizes whose bytes are known to be written.

        Not up to what they are now: of batches that were appended together meanwhile only the
        space is there, until their commit writes them.
        """
        for segment, size in segments:
            if size > segment.synced_size:
                segment.save_index()
                try:
                    segment.sync(size)
                except OSError as error:
                    # Trying again could succeed without the bytes being there.
                    raise self._committer.fail(error, f"syncing {segment.path}") from error
        for segment, _ in segments[:-1]:
            segment.forget_index()

    def _sync_names(self, names: dict[DiskPartition, int]) -> None:
        """Make files findable after a power cut: their names, and those of their directories."""
        if not names:
            return
        try:
            self._files.sync_dir(PARTITIONS)
            for partition in names:
                if partition.id in self._partitions:
                    self._files.sync_dir(partition.directory)
        except OSError as error:
            raise self._committer.fail(error, "syncing the directories of partitions") from error
        with self._lock:
            for partition, made in names.items():
                partition.names_synced = max(made, partition.names_synced)

    def _give_up_before(self, number: int) -> None:
        """Remove older write-ahead files, but for one that will be used again."""
        for place in wal.listed(self._files):
            if place.number < number:
                if self._spare is None:
                    self._spare = place.path
                else:
                    self._files.remove(place.path)

    def cut_start(self, partition: DiskPartition, start: int) -> None:
        """Move the start of a partition on; under the lock."""
        if start <= partition.start:
            return
        partition.check_offset(start)
        dropped = partition.outlived(start)
        gone = [(each.base, each.generation) for each in dropped]
        begins = dropped[-1].next_offset if dropped else 0
        self._note(Kind.CUT, msgspec.msgpack.encode((partition.id, start, begins, gone)))
        for segment in partition.drop_before(start):
            self._throw_away(segment)
        self.changed(partition)

    def cut_end(self, partition: DiskPartition, end: int) -> None:
        """Let a quiet partition end earlier, and begin a new epoch; under the lock."""
        partition.check_offset(end)
        removed = [each for each in partition.segments if each.next_offset > end]
        generation = partition.generation + 1
        added = []
        if removed and removed[0].base < end:
            cut = removed[0]
            fresh = partition.empty_segment(cut.base, cut.created_ms, generation)
            fresh.dense = cut.dense
            before = batches_before(cut, end)
            write_segment(self._files, partition, fresh, before, next_offset=end)
            added.append(fresh)
        kept = [each for each in partition.segments if each.next_offset <= end]
        self._sync_segments([(each, each.size) for each in kept])
        if kept or added:
            self._files.sync_dir(PARTITIONS)
            self._files.sync_dir(partition.directory)
        record = msgspec.structs.replace(
            partition.record(),
            end=end,
            generation=generation,
            epochs=(*partition.epochs, (partition.epoch + 1, end)),
            segments=tuple(each.record() for each in (*kept, *added) if each.size),
        )
        # The generation is used up even if there is no space for the note.
        partition.generation = generation
        self._note_replaced(partition, record, removed)
        partition.replace(removed, added)
        partition.take_back(end)

    def rewrite(
        self,
        partition: DiskPartition,
        segment: Segment,
        batches: Iterable[bytes | bytearray],
        *,
        gaps: bool,
    ) -> None:
        """Replace a segment by one with these batches; nobody else may use the log meanwhile."""
        partition.generation += 1
        added = partition.empty_segment(segment.base, segment.created_ms, partition.generation)
        added.dense = segment.dense and not gaps
        write_segment(self._files, partition, added, batches, next_offset=segment.next_offset)
        with self._lock:
            partition.replace([segment], [added])
            partition.reveal(partition.end)
            self._note_replaced(partition, partition.record(), [segment])

    def _note_replaced(
        self, partition: DiskPartition, record: PartitionRecord, removed: Collection[Segment]
    ) -> None:
        """Put a new recovery point into the write-ahead log, and throw the old files away."""
        gone = [(each.base, each.generation) for each in removed]
        self._note(Kind.REPLACE, msgspec.msgpack.encode((record, gone)))
        for segment in removed:
            self._throw_away(segment)
        self.changed(partition)

    def _retain(self, partition: DiskPartition, now_ms: int) -> None:
        settings = partition.settings
        with self._lock:
            if self._partitions.get(partition.id) is not partition or not partition.segments:
                return
            active = partition.segments[-1]
            limit = settings.close_ms
            aged = limit is not None and now_ms - active.created_ms >= limit
            # A segment that is still written to goes like the others once all of it is too old.
            if active.size and (aged or _too_old(active, settings, now_ms)):
                partition.roll(now_ms)
            if settings.expire_ms is None and settings.expire_bytes is None:
                return
            start = _retained_start(partition, now_ms)
            if start > partition.start:
                self.cut_start(partition, start)

    def _compact(self, partition: DiskPartition, now_ms: int) -> None:
        with self._lock:
            # What is not visible yet may not even be written yet.
            sealed = [
                each for each in partition.segments[:-1] if each.next_offset <= partition.tail
            ]
            sealed = old_enough(sealed, partition.settings, now_ms)
            if not worth_compacting(sealed, partition.settings, now_ms):
                return
            generation = partition.generation = partition.generation + 1
        added: list[Segment] = []
        try:
            removed = compact(self._files, partition, sealed, now_ms, generation, added)
            with self._checkpointing:
                names = {partition: partition.names_made}
                durable = self._capture(partition, names)
                self._sync_names(names)
                with self._lock:
                    if self._is_as(partition, durable) and set(removed) <= set(partition.segments):
                        before = partition.segments
                        partition.replace(removed, [each for each in added if each.size])
                        record = _recovery_point(partition, durable)
                        try:
                            self._note_replaced(partition, record, removed)
                        except MainstemError:
                            partition.segments = before
                            raise
                        return
        except Exception:
            # If it failed after the note may have been made, the new segments are in use.
            in_use = set(partition.segments)
            self._discard_segments([each for each in added if each not in in_use])
            raise
        # Deleted, or cut meanwhile: what was written is not needed.
        self._discard_segments(added)

    def _is_as(self, partition: DiskPartition, record: PartitionRecord) -> bool:
        """Tell whether a partition is still there, and its end was not taken back since."""
        return self._partitions.get(partition.id) is partition and record.epochs == tuple(
            partition.epochs
        )

    def _discard_segments(self, segments: list[Segment]) -> None:
        with self._lock:
            for segment in segments:
                self._throw_away(segment)

    def _note(self, kind: Kind, payload: bytes) -> None:
        try:
            self._committer.wal.reserve(len(payload))
        except OSError as error:
            raise self._committer.space.refusal(error, "noting a change of segments") from error
        self._committer.wal.add(kind, [payload])
        self._committer.flush()

    def _throw_away(self, segment: Segment) -> None:
        self._trash += (segment.path, segment.index_path)

    def _empty_trash(self) -> None:
        """Remove files that the write-ahead log durably says are not needed."""
        with self._lock:
            if not self._trash and not self._emptied:
                return
            self._committer.gather()
            trash, self._trash = self._trash, []
            emptied, self._emptied = self._emptied, []
        self._committer.commit()
        if self._committer.failed is not None:
            return
        for path in trash:
            self._file_cache.drop(path)
            self._remove(path)
        for directory in emptied:
            # A checkpoint that was under way may have saved an index meanwhile.
            for name in self._files.names(directory):
                if name.endswith((".seg", ".idx")):
                    self._remove(f"{directory}/{name}")
            self._remove(directory)

    def _remove(self, path: str) -> None:
        try:
            self._files.remove(path)
        except OSError as error:
            # A file that somebody put into the directory keeps it; it is not ours to delete.
            _logger.warning("cannot remove %s: %s", path, error)


def _as_told(error: Exception) -> MainstemError:
    """Return an error of upkeep in words that an operator can act on."""
    if isinstance(error, MainstemError):
        return error
    if isinstance(error, OSError):
        return refusal(error, "keeping up")
    return MainstemError(
        f"upkeep met what it did not expect ({error!r}) and tries again; if it stays, report it"
    )


def _recovery_point(partition: DiskPartition, durable: PartitionRecord) -> PartitionRecord:
    """Describe a partition's segments of now, as long as they were when last made durable."""
    before = {(each.base, each.generation): each for each in durable.segments}
    now = [each.record() for each in partition.segments if each.synced_size > 0]
    segments = tuple(before.get((each.base, each.generation), each) for each in now)
    return msgspec.structs.replace(
        durable, start=partition.start, generation=partition.generation, segments=segments
    )


def _retained_start(partition: DiskPartition, now_ms: int) -> int:
    """Return where the partition begins once old and surplus segments are gone."""
    settings = partition.settings
    size = partition.size_bytes
    start = partition.start
    for segment in partition.segments[:-1]:
        too_old = _too_old(segment, settings, now_ms)
        size -= segment.size
        too_much = settings.expire_bytes is not None and size >= settings.expire_bytes
        # What readers cannot see yet was never theirs to lose.
        if not (too_old or too_much) or segment.next_offset > partition.tail:
            break
        start = max(start, segment.next_offset)
    return start


def _too_old(segment: Segment, settings: TopicSettings, now_ms: int) -> bool:
    if settings.expire_ms is None:
        return False
    newest_ms = segment.newest_ms if segment.newest_ms >= 0 else segment.created_ms
    return newest_ms < now_ms - settings.expire_ms
