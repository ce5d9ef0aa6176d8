"""Background upkeep of the log: retention, thinning, compaction, checkpoints, deleted files.

One thread makes a round every ``upkeep_ms``. A failure in one partition does not stop the others; a
failed checkpoint, thinning or compaction is retried with exponential backoff. A round looks at the
partitions that have changed, and in turn at some of the others, so that thousands of idle
partitions cost no more than a few.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from mainstem.core.errors import MainstemError
from mainstem.log.commit.checkpoint import Checkpoints
from mainstem.log.commit.deleted_files import DeletedFiles
from mainstem.log.commit.group_commit import Committer
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files, refusal
from mainstem.log.memory import MemoryPartition
from mainstem.log.partition_map import Partition, PartitionMap
from mainstem.log.upkeep.backoff import Backoff
from mainstem.log.upkeep.compaction import Compactor
from mainstem.log.upkeep.retention import Retention
from mainstem.log.upkeep.segment_changes import SegmentChanges
from mainstem.log.upkeep.segment_swap import SegmentSwap
from mainstem.log.upkeep.thinning import Thinner

IDLE_AT_ONCE = 1_000
"""At most this many partitions that have not changed are looked at in one round."""
_CHECKPOINT = "checkpoint"

_logger = logging.getLogger("mainstem.log")


class Upkeep:
    """Runs retention, thinning, compaction and checkpoints, in rounds."""

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        now_ms: Callable[[], int],
        committer: Committer,
        partitions: PartitionMap,
        checkpoints: Checkpoints,
        deleted_files: DeletedFiles,
    ) -> None:
        self._files, self._lock, self._partitions = files, lock, partitions
        self._now_ms = now_ms
        self._committer, self._checkpoints = committer, checkpoints
        self._deleted_files = deleted_files
        self.segment_changes = SegmentChanges(files, lock, committer, checkpoints, deleted_files)
        self._retention = Retention(lock, partitions, self.segment_changes)
        segment_swap = SegmentSwap(lock, partitions, checkpoints, self.segment_changes)
        self._compactor = Compactor(files, lock, segment_swap)
        self._thinner = Thinner(files, lock, now_ms, segment_swap)
        self._ticking = threading.Lock()
        self._backoff = Backoff()
        """Delays the retries of expensive work: checkpoints, and rewriting a partition's segments.
        """
        self._turn = 0
        """Which of the partitions that have not changed is looked at next."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_error: MainstemError | None = None
        """The error of the last round, None if it had none; the failed work is retried."""

    def start(self, every_ms: int) -> None:
        """Start a thread that makes a round every ``every_ms``."""

        def run() -> None:
            while not self._stopping.wait(every_ms / 1000):
                self._try_tick()

        self._thread = threading.Thread(target=run, name="mainstem-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, when it has finished its current step."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def discard(self, partition: DiskPartition) -> None:
        """Delete the files of a partition once its deletion is durable; under the lock."""
        self._checkpoints.forget(partition)
        self._backoff.forget(partition.id)
        self._deleted_files.add_partition(partition)

    @property
    def due(self) -> bool:
        """Whether so much was written since the last checkpoint that the next one is due."""
        return self._checkpoints.due

    def checkpoint(self) -> None:
        """Make a checkpoint: update the manifest, and remove the older write-ahead files."""
        self._checkpoints.make()

    def tick(self) -> None:
        """Do all due work of all partitions; a failure in one partition does not stop the others.

        Compacting all partitions may take long. Between two of them a checkpoint is made if one
        became due, and the round ends early if the log is being closed.
        """
        self._round(at_once=True)

    def _round(self, *, at_once: bool) -> None:
        with self._ticking:
            self._backoff.begin_round(at_once=at_once)
            self._tick(self._chosen(every=at_once))

    def _chosen(self, *, every: bool) -> Collection[Partition]:
        """Return the partitions that a round looks at; if ``every`` is true, all partitions."""
        with self._lock:
            partitions = list(self._partitions.values())
        if every or len(partitions) <= IDLE_AT_ONCE:
            return partitions
        first = self._turn if self._turn < len(partitions) else 0
        self._turn = first + IDLE_AT_ONCE
        changed = [each for each in partitions if each.tail != each.upkept]
        return dict.fromkeys(partitions[first : self._turn] + changed)

    def _tick(self, partitions: Iterable[Partition]) -> None:
        try:
            self._files.check_there()
        except OSError as error:
            raise self._committer.fail(error, "checking the data directory") from error
        self._committer.space.look()
        now_ms = self._now_ms()
        failed: Exception | None = None
        stuck: Exception | None = None
        for partition in partitions:
            if self._stopping.is_set():
                break
            try:
                self._maintain(partition, now_ms)
            except OSError as error:
                failed = refusal(error, "retaining or compacting events")
            except Exception as error:
                failed = error
            stuck = stuck or self._try_checkpoint()
        shrink = self._checkpoints.is_oversized(now_ms)
        stuck = stuck or self._try_checkpoint(shrink=shrink)
        # Even when a checkpoint failed for lack of space, since this frees some.
        self._deleted_files.remove()
        failed = stuck or failed
        if failed is not None:
            raise failed

    def _try_checkpoint(self, *, shrink: bool = False) -> Exception | None:
        """Make a checkpoint if one is due; return the error if it failed."""
        if not (self.due or shrink) or self._stopping.is_set() or self._backoff.rests(_CHECKPOINT):
            return None
        try:
            self._checkpoints.make(shrink=shrink)
        except Exception as error:
            self._backoff.failed(_CHECKPOINT)
            return refusal(error, "making a checkpoint") if isinstance(error, OSError) else error
        self._backoff.forget(_CHECKPOINT)
        return None

    def _maintain(self, partition: Partition, now_ms: int) -> None:
        settings = partition.settings
        # Before its work, during which more can happen to the partition.
        partition.upkept = partition.tail
        if isinstance(partition, MemoryPartition):
            if settings.expire_ms is not None:
                # Notes the time and the tail in every round.
                partition.upkept = None
                with self._lock:
                    partition.expire(now_ms)
            return
        try:
            if settings.close_ms or settings.expire_ms or settings.expire_bytes:
                self._retention.apply(partition, now_ms)
            if self._backoff.rests(partition.id):
                partition.upkept = None
            elif settings.compact or partition.needed is not None:
                self._rewrite(partition, now_ms)
        except Exception:
            partition.upkept = None
            raise

    def _rewrite(self, partition: DiskPartition, now_ms: int) -> None:
        """Thin and compact a partition, as its settings say."""
        try:
            self._thinner.thin(partition)
            if partition.settings.compact:
                self._compactor.compact(partition, now_ms)
        except Exception:
            self._backoff.failed(partition.id)
            raise
        self._backoff.forget(partition.id)

    def _try_tick(self) -> None:
        try:
            self._round(at_once=False)
            if not self._backoff.left_out:
                self.last_error = None
        except Exception as error:
            # Upkeep must survive a full or failing disk, and bugs: the next round tries again.
            reason = _explained(error)
            if str(reason) != str(self.last_error):
                foreseen = isinstance(error, OSError | MainstemError)
                _logger.warning(
                    "upkeep of the log: %s", reason, exc_info=None if foreseen else error
                )
            self.last_error = reason


def _explained(error: Exception) -> MainstemError:
    """Return the error with a message from which an operator knows what to do."""
    if isinstance(error, MainstemError):
        return error
    if isinstance(error, OSError):
        return refusal(error, "keeping up")
    return MainstemError(
        f"upkeep failed unexpectedly ({error!r}) and is retried; if it keeps failing, report a bug"
    )
