"""The group commit: appends that wait for durability at the same time share one fdatasync.

How this works: an append under the ``fsync`` policy joins the current group. ``commit`` takes the
group, writes the write-ahead log in one call, syncs it without the lock (new appends join the next
group meanwhile), and only then makes the events visible and calls the waiting callbacks. A batch
too large to be written twice is not in the write-ahead log: its segment is synced instead. After a
failed sync it is unknown what reached the disk, so nothing more is acknowledged; recovery at the
next opening finds out.

Who commits: a thread, woken when a group begins; or a thread that waits for the group and has
nothing else to do (``commit_here``), since waking two threads takes longer than a fast disk.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter

import msgspec

from mainstem.core.errors import MainstemError, StorageFailed
from mainstem.core.histogram import Histogram
from mainstem.log.commit.durable import Commit
from mainstem.log.commit.wal import Kind, WriteAheadLog
from mainstem.log.disk_partition import PARTITIONS, DiskPartition
from mainstem.log.files.disk_space import DiskSpace
from mainstem.log.files.files import Buffer, Files, OpenFile, refusal
from mainstem.log.memory import MemoryPartition
from mainstem.log.segments.segment import Segment
from mainstem.log.tail_watches import Wake, call_all

_logger = logging.getLogger("mainstem.log")

SYNC_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LAZY_S = 0.05
"""Seconds by which a lazy sync, which nobody waits for, is delayed so that others can share it."""
QUICK_S = 0.001
"""A disk is fast if its syncs take no longer, in seconds."""
QUICK_RUN = 32
"""The number of fast syncs in a row after which a disk counts as fast."""
QUICK_BYTES = 8 * 1024
"""The most bytes that a commit may write if it is expected to be fast."""


class Group:
    """Appends that become durable, and visible, together."""

    def __init__(
        self,
        hand_over: Callable[[], None],
        check_wait: Callable[[], None] | None = None,
        hasten: Callable[[], None] | None = None,
    ) -> None:
        self.commit = Commit(hand_over, check_wait, hasten)
        self.empty = True
        """Whether nobody waits for the group: it has no appends, or only lazy ones."""
        self.lazy = False
        """Whether the group has lazy appends, so that it must be committed a little later."""
        self.size = 0
        """The number of appends in the group."""
        self.tails: dict[DiskPartition, tuple[int, Segment, int]] = {}
        """The new tail of each partition, with its segment and position."""
        self.memory_tails: dict[MemoryPartition, int] = {}
        self.deferred: list[tuple[Segment, int, Buffer]] = []
        """Atomic batches, written to their segments once the write-ahead log has them."""
        self.direct: dict[str, OpenFile] = {}
        """Segments to sync: they hold batches that are not in the write-ahead log."""
        self.renamed: dict[str, DiskPartition] = {}
        """Partitions whose directories are to be synced, since they have new segment files."""
        self.wal_files: list[OpenFile] = []
        """Write-ahead files to sync: two, if a checkpoint began a new one meanwhile."""


class Committer:
    """Makes group commits; owns the write-ahead log and current group; shares the log's lock."""

    def __init__(
        self,
        files: Files,
        lock: threading.Lock,
        wal: WriteAheadLog,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._files = files
        self._lock = lock
        self._work = threading.Condition(lock)
        self._committing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.wal = wal
        self.space = DiskSpace(files)
        """Detects that the disk is full, and when it has space again."""
        self.loop_thread: int | None = None
        """The event loop thread that commits, so that it must never wait for a commit."""
        self.group = self.new_group()
        self.failed: StorageFailed | None = None
        self.syncs = 0
        """Number of commits so far."""
        self._timer = timer
        self.sync_seconds = Histogram(SYNC_SECONDS)
        """The distribution of sync times."""
        self.group_sizes = Histogram(GROUP_SIZES)
        """The distribution of appends per commit."""
        self.summon: Callable[[], None] = self._work.notify
        """Called under the lock when a group begins; it must arrange that ``commit`` is called
        soon.
        """
        self._quick_run = 0

    def start(self) -> None:
        """Start the thread that commits."""
        self._thread = threading.Thread(target=self._run, name="mainstem-commit", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Commit what is pending and stop the thread."""
        with self._lock:
            self._stopping = True
            self._work.notify()
        if self._thread is not None:
            self._thread.join()
        self.commit()

    def _check_wait(self) -> None:
        if threading.get_ident() == self.loop_thread:
            raise RuntimeError(
                "waiting for durability in the event loop thread would deadlock: "
                "the loop itself commits; use then() there"
            )

    def new_group(self) -> Group:
        """Return an empty group."""
        return Group(self._hand_over, self._check_wait, self._hasten)

    def gather(self, *, lazy: bool = False) -> Group:
        """Return the current group, and have it committed: soon, or (``lazy``) a little later.

        Under the lock.
        """
        group = self.group
        group.size += 1
        if group.empty and not lazy:
            group.empty = False
            self.summon()
        elif group.empty and not group.lazy:
            group.lazy = True
            # The thread commits after LAZY_S, unless another thread does before.
            self._work.notify()
        return group

    def hasten(self) -> None:
        """Have lazy appends committed soon, as somebody waits for them; under the lock."""
        if self.group.lazy and self.group.empty:
            self.group.empty = False
            self.summon()

    def _hasten(self) -> None:
        # Without the lock first: nearly always the group is already being committed.
        if self.group.lazy and self.group.empty:
            with self._lock:
                self.hasten()

    @property
    def is_quick(self) -> bool:
        """Whether a commit is expected to be quick: little to sync, and recent syncs were fast."""
        group, wal = self.group, self.wal
        return (
            self._quick_run >= QUICK_RUN
            and wal.pending_bytes <= QUICK_BYTES
            and not (group.direct or group.renamed)
        )

    def wake(self) -> None:
        """Wake the committing thread; called without the lock."""
        with self._lock:
            self._work.notify()

    def note(self, kind: Kind, change: object, what: str) -> None:
        """Add a change to the write-ahead log; under the lock.

        ``what``: the things that change (such as "segments"), for the text of an error.
        """
        payload = msgspec.msgpack.encode(change)
        try:
            self.wal.reserve(len(payload))
        except OSError as error:
            raise self.space.refusal(error, f"noting a change of {what}") from error
        self.wal.add(kind, [payload])
        self.flush()

    def flush(self) -> None:
        """Write the write-ahead log to the page cache, to survive kill -9; under the lock."""
        if self.wal.pending:
            try:
                self.wal.flush()
            except Exception as error:
                raise self.fail(error, "writing the write-ahead log") from error
            if self.wal.file not in self.group.wal_files:
                self.group.wal_files.append(self.wal.file)

    def _hand_over(self) -> None:
        with self._lock:
            self.flush()

    def commit(self) -> None:
        """Make the appends of the current group durable and visible, and call their callbacks."""
        with self._committing:
            self._commit()

    def commit_here(self) -> bool:
        """Commit in this thread; returns False if another thread is committing."""
        if not self._committing.acquire(blocking=False):
            return False
        try:
            self._commit()
        finally:
            self._committing.release()
        return True

    def _commit(self) -> None:
        with self._lock:
            if self.group.empty and not self.wal.pending and not self.group.wal_files:
                return
            with suppress(StorageFailed):
                self.flush()
            group, self.group = self.group, self.new_group()
            names = [(each, each.names_made) for each in group.renamed.values()]
            failed = self.failed
        try:
            if failed is None:
                failed = self._sync(group)
            if failed is None:
                self._finish(group, names)
        except Exception as error:
            # For example MemoryError: waiters must get the error, and the thread must survive.
            failed = self.fail(error, "committing")
        group.commit.settle(failed)

    def check(self) -> None:
        """Raise the error that stopped the log, if any."""
        if self.failed is not None:
            raise self.failed

    def fail(self, error: Exception, what: str) -> StorageFailed:
        """Stop the log: acknowledge nothing any more; the first error is kept. Needs no lock."""
        if self.failed is None:
            problem: MainstemError = (
                refusal(error, what)
                if isinstance(error, OSError)
                else StorageFailed(
                    f"{what} failed ({error!r}): nothing more is acknowledged; reopen the log, "
                    "which verifies itself"
                )
            )
            self.failed = StorageFailed(str(problem))
            # Operators should learn of it before their clients complain.
            _logger.error("the log has stopped: %s", problem)
        return self.failed

    def _sync(self, group: Group) -> StorageFailed | None:
        began = self._timer()
        try:
            if group.renamed:
                self._files.sync_dir(PARTITIONS)
                for partition in group.renamed.values():
                    self._files.sync_dir(partition.directory)
            for file in group.direct.values():
                file.sync()
            for file in group.wal_files:
                file.sync()
            self._files.check_there()
            self.syncs += 1
            seconds = self._timer() - began
            self.sync_seconds.add(seconds)
            self._quick_run = self._quick_run + 1 if seconds <= QUICK_S else 0
            self.group_sizes.add(group.size)
            _write_deferred(group)
        except OSError as error:
            return self.fail(error, "syncing the log")
        return None

    def _finish(self, group: Group, names: list[tuple[DiskPartition, int]]) -> None:
        with self._lock:
            for partition, made in names:
                partition.names_synced = max(made, partition.names_synced)
            wakes = _reveal(group)
        call_all(wakes)

    def finish_unsynced(self, group: Group) -> list[Wake]:
        """Make a group visible that needs no sync; return the watches to call.

        The group is not the current one.

        Under the lock. Its write-ahead entries are in the page cache, so after kill -9 all of it is
        kept.
        """
        self.flush()
        _write_deferred(group)
        return _reveal(group)

    def _run(self) -> None:
        while True:
            with self._lock:
                while self.group.empty and not self._stopping:
                    if not self._work.wait(LAZY_S if self.group.lazy else None):
                        break
                if self._stopping:
                    return
            self.commit()


def _write_deferred(group: Group) -> None:
    for segment, position, batch in group.deferred:
        segment.file.pwrite(batch, position)


def _reveal(group: Group) -> list[Wake]:
    """Make a group visible by moving the partitions' tails; return the watches to call."""
    wakes: list[Wake] = []
    for partition, (tail, segment, position) in group.tails.items():
        wakes += partition.reveal_at(tail, segment, position)
    for memory, tail in group.memory_tails.items():
        wakes += memory.advance(tail)
    return wakes
