"""A node without network: a log and a broker, built from one Config."""

import atexit
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from mainstem.broker.broker import Broker
from mainstem.broker.limits import Limits
from mainstem.core.errors import StorageFull
from mainstem.core.histogram import Histogram
from mainstem.core.names import is_internal
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.commit.group_commit import Committer
from mainstem.log.disk import DiskLog
from mainstem.log.files.read_only import ReadOnlyFiles
from mainstem.log.memory import MemoryLog
from mainstem.log.options import Options
from mainstem.log.recovery.recovery import Report
from mainstem.node.config import Config
from mainstem.node.deletion_watch import watch_deletions
from mainstem.node.open_file_limit import raise_open_files

__all__ = ["Node", "Report", "monotonic_ms", "open_node", "open_view", "time_of_day_ms"]


def time_of_day_ms() -> int:
    """Return the present time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return the time of the monotonic clock in milliseconds."""
    return time.monotonic_ns() // 1_000_000


class Node:
    """A log and the broker on it, in this process, until it is closed."""

    def __init__(
        self,
        config: Config,
        log: DiskLog | MemoryLog,
        path: Path | None,
        now_ms: Callable[[], int],
        *,
        is_server: bool = False,
    ) -> None:
        self.config = config
        self.path = path
        """The data directory; None for a log in memory."""
        self.now_ms = now_ms
        self.broker = Broker(
            log,
            now_ms,
            hand_over_ms=config.hand_over_ms,
            # Session timeouts use the monotonic clock, since the time of day may jump.
            monotonic_ms=monotonic_ms if now_ms is time_of_day_ms else None,
            limits=Limits(
                topics=config.topics,
                groups=config.groups,
                group_defaults=config.group_defaults,
                producers=config.producers,
                transactions=config.transactions,
            ),
            # Without a server, no member can come back after a restart, so groups begin without
            # members.
            resumes=is_server,
            crashed=isinstance(log, DiskLog) and not log.recovery.clean,
        )
        watch_deletions(self.broker)
        self.defaults = TopicSettings(partitions=config.partitions, durability=config.durability)
        """The settings of topics that are created without settings."""
        self._log = log
        self._pid = os.getpid()
        self._closed = threading.Event()
        if isinstance(log, MemoryLog):
            self._start_upkeep(log)
        elif not log.recovery.clean or self._has_memory_topics():
            self._take_back_cursors()
            self._forget_strays(log)
        # Closes the log if the program exits without closing it.
        atexit.register(self.close)

    @property
    def recovery(self) -> Report | None:
        """What recovery found when the log was opened; None for a log in memory."""
        return self._log.recovery if isinstance(self._log, DiskLog) else None

    @property
    def committer(self) -> Committer | None:
        """The group commit of the log; None for a log in memory."""
        return self._log.committer if isinstance(self._log, DiskLog) else None

    @property
    def commits(self) -> tuple[Histogram, Histogram] | None:
        """Distributions of sync times and of appends per commit; None for a log in memory."""
        if isinstance(self._log, MemoryLog):
            return None
        return self._log.committer.sync_seconds, self._log.committer.group_sizes

    @property
    def stopped(self) -> str | None:
        """Why the log has stopped after a disk failure; None while it works."""
        failed = self._log.committer.failed if isinstance(self._log, DiskLog) else None
        return None if failed is None else str(failed)

    @property
    def full(self) -> str | None:
        """Why appends are refused while the disk is full; None while there is space."""
        return self._log.committer.space.full if isinstance(self._log, DiskLog) else None

    def keep_up(self) -> None:
        """Run retention, compaction and checkpoints now, in addition to every ``upkeep_ms``."""
        if isinstance(self._log, MemoryLog):
            self._log.upkeep()
        else:
            self._log.upkeep.tick()

    def close(self) -> None:
        """Close the broker, then the log; does nothing in a forked child process."""
        if os.getpid() != self._pid or self._closed.is_set():
            return
        self._closed.set()
        atexit.unregister(self.close)
        if self.stopped is None:
            self.broker.close()
        self._log.close()

    def _has_memory_topics(self) -> bool:
        topics = self.broker.topics()
        return any(topic.settings.durability is Durability.MEMORY for topic in topics)

    def _take_back_cursors(self) -> None:
        """Move committed offsets that are after the end of a partition back to that end.

        They survive a power cut, but events of ``disk`` and ``memory`` topics may not. New events
        would get the offsets of the lost ones, and the group would skip them.
        """
        for group in self.broker.groups():
            ahead = {
                (lag.topic, lag.partition): lag.tail
                for lag in group.lags
                if lag.cursor is not None and lag.cursor > lag.tail
            }
            if ahead:
                # A member that stayed connected across the restart gets an error at its next read.
                self.broker.put_back(group.name, ahead)

    def _forget_strays(self, log: DiskLog) -> None:
        """Delete empty partitions that belong to no topic, left by a crash during a change.

        Partitions with events are kept, even if their topic is unknown.
        """
        known = {at for topic in self.broker.topics(internal=True) for at in topic.partitions}
        strays = [
            each.id
            for each in log.disk_partitions()
            if each.id not in known and not is_internal(each.topic) and not each.bounds().end
        ]
        # Empty partitions are harmless, so a full disk must not prevent opening because of them.
        with suppress(StorageFull):
            log.delete(strays)

    def _start_upkeep(self, log: MemoryLog) -> None:
        def run() -> None:
            while not self._closed.wait(self.config.upkeep_ms / 1000):
                log.upkeep()

        threading.Thread(target=run, name="mainstem-upkeep", daemon=True).start()


def open_node(
    path: Path | None,
    config: Config,
    *,
    now_ms: Callable[[], int] = time_of_day_ms,
    listens: str | None = None,
    admin: str | None = None,
    brief: bool = False,
) -> Node:
    """Open the log in a data directory, or create one in memory without path, and a broker on it.

    Another process that tries to open the directory is told the addresses ``listens`` and
    ``admin``; if ``brief`` is set, it waits instead, as this process closes the directory soon.
    """
    with _without_collecting():
        return _open(path, config, now_ms, listens, admin, brief)


def _open(
    path: Path | None,
    config: Config,
    now_ms: Callable[[], int],
    listens: str | None,
    admin: str | None,
    brief: bool,
) -> Node:
    log: DiskLog | MemoryLog
    if path is None:
        log = MemoryLog(max_bytes=config.max_memory_bytes, now_ms=now_ms)
    else:
        options = Options(
            max_open_files=raise_open_files(),
            upkeep_ms=config.upkeep_ms,
            max_memory_bytes=config.max_memory_bytes,
        )
        log = DiskLog.open(
            path, now_ms=now_ms, options=options, listens=listens, admin=admin, brief=brief
        )
    try:
        return Node(config, log, path, now_ms, is_server=listens is not None)
    except BaseException:
        log.close()
        raise


def open_view(path: Path, config: Config, *, now_ms: Callable[[], int] = time_of_day_ms) -> Node:
    """Open a data directory read-only, as it is now.

    Another process may open it and write afterwards; its changes are not visible here.
    """
    limit = raise_open_files()
    options = Options(
        max_open_files=limit, max_memory_bytes=config.max_memory_bytes, background=False
    )
    files = ReadOnlyFiles(path)
    with _without_collecting():
        log = DiskLog.open(files=files, now_ms=now_ms, options=options)
        try:
            node = Node(config, log, path, now_ms)
            _keep_open(log, limit)
        except BaseException:
            log.close()
            raise
    files.unlock()
    return node


def _keep_open(log: DiskLog, limit: int) -> None:
    """Open the files of up to ``limit`` segments, which then stay readable if deleted."""
    segments = (segment for each in log.disk_partitions() for segment in each.segments)
    for segment in islice((each for each in segments if each.created), limit):
        # Missing or damaged files raise errors later, when they are read.
        with suppress(OSError):
            _ = segment.file


@contextmanager
def _without_collecting() -> Iterator[None]:
    """In the block, which creates many long-lived objects, disable the garbage collector."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
