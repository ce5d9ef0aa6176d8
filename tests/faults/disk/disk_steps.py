"""Steps for tests on a simulated disk: open, append, read, crash."""

import errno
import os
from collections.abc import Callable
from random import Random

from tests.faults.disk.crash_states import crashes
from tests.faults.disk.random_workload import OPTIONS
from tests.faults.disk.simulated_disk import Image, Operation, SimFiles
from tests.faults.ledger import read_all

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.log.disk import DiskLog
from mainstem.log.port import Durable, PartitionId


def opened(files: SimFiles, now_ms: Callable[[], int] = lambda: 0) -> DiskLog:
    """Open the log on a simulated disk."""
    return DiskLog.open(files=files, now_ms=now_ms, options=OPTIONS)


def batch(*values: bytes | None, key: bytes | None = None, time: int = 0) -> bytearray:
    """Build a record batch of these values."""
    return build([Event(value, key=key, timestamp_ms=time) for value in values], now_ms=0)


def append(log: DiskLog, partition: PartitionId, *values: bytes) -> Durable:
    """Append a batch, and commit it."""
    durable = log.append([(partition, batch(*values))]).durable
    log.committer.commit()
    return durable


def values(log: DiskLog, partition: PartitionId) -> list[bytes | None]:
    """Return what readers see of a partition."""
    return [each.value for each in read_all(log, partition, 1 << 20)]


def killed(files: SimFiles) -> SimFiles:
    """Return the disk after kill -9: what was written is there."""
    return SimFiles(files.image())


def without_power(base: Image, trace: list[Operation], what: str) -> SimFiles:
    """Return the disk after a power cut at the end of a trace; ``what`` says what is left."""
    left = {crash.what: crash for crash in crashes(base, trace, Random(0), first=len(trace))}
    # If all is durable, nothing can be lost.
    return SimFiles(left.get(what, left["killed"]).image)


def refuse(files: SimFiles, kinds: str, paths: str = "", code: int = errno.ENOSPC) -> None:
    """Let every operation of these kinds on such paths fail from now on."""

    def before(kind: str, path: str) -> None:
        if kind in kinds.split() and paths in path:
            raise OSError(code, os.strerror(code), path)

    files.before = before


def full_after(files: SimFiles, steps: int) -> list[str]:
    """Let the disk be full after so many steps that take space; returns what it refused."""
    refused: list[str] = []
    taken: list[str] = []

    def before(kind: str, path: str) -> None:
        if kind in ("allocate", "grow", "create", "make_dir"):
            taken.append(path)
            if len(taken) > steps:
                refused.append(path)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.before = before
    return refused


def allow(files: SimFiles) -> None:
    """Let everything work again."""
    files.before = lambda kind, path: None
