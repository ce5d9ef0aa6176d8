"""Verifies and repairs a data directory that no process has open."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mainstem.core.errors import MainstemError
from mainstem.log.files.files import RealFiles
from mainstem.log.files.read_only import ReadOnlyFiles
from mainstem.log.recovery import repair as mending
from mainstem.log.recovery import verification
from mainstem.log.recovery.repair import Repaired
from mainstem.log.recovery.verification import Checked, Finding

Taken = TypeVar("Taken", RealFiles, ReadOnlyFiles)

__all__ = ["Checked", "Finding", "NoLog", "Repaired", "repair", "verify"]


class NoLog(MainstemError):
    """Raised if there is no log in the directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no log in {path}; name its directory with --at")
        self.path = path


def verify(path: Path, progress: Callable[[Checked], None] = lambda _: None) -> Checked:
    """Check all data in the directory without changing anything; return what was found."""
    files = _take(ReadOnlyFiles(path), path)
    try:
        return verification.verify(files, progress)
    finally:
        files.unlock()


def repair(path: Path) -> Repaired:
    """Repair a data directory and return what was done; ``quarantine/`` gets the damaged parts."""
    files = _take(RealFiles(path), path)
    try:
        return mending.repair(files, lambda: time.time_ns() // 1_000_000)
    finally:
        files.unlock()


def _take(files: Taken, path: Path) -> Taken:
    if not (path / "partitions").is_dir():
        raise NoLog(path)
    files.lock(None)
    return files
