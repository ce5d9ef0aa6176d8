"""A data directory seen from outside, without taking it: who holds it, and what it says."""

import fcntl
import os
from pathlib import Path

import msgspec

from mainstem.log import manifest
from mainstem.log.read_only import ReadOnlyFiles
from mainstem.log.symlinks import open_lock, read_lock

FORMAT = manifest.FORMAT


class Holder(msgspec.Struct, frozen=True):
    """The process that has a data directory open."""

    pid: int
    listens: str | None
    """Where it can be reached; None if it does not listen."""
    admin: str | None = None
    """Where it can be looked after."""
    brief: bool = False
    """Whether it ends by itself soon."""


def is_log(path: Path) -> bool:
    """Tell whether a directory holds a log."""
    return (path / "partitions").is_dir()


def holder_of(path: Path) -> Holder | None:
    """Return who holds a data directory; None if nobody does, whatever a stale lock file says."""
    try:
        fd = open_lock(os.fspath(path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two who only ask do not see one another as the holder.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(read_lock(fd))
    else:
        return None
    finally:
        os.close(fd)


def check_format(path: Path) -> list[str]:
    """Return what is damaged in the manifest; raises FormatTooNew or DamagedLog if unusable."""
    _, damage = manifest.read(ReadOnlyFiles(path))
    return damage


def _read(text: bytes) -> Holder:
    try:
        return msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        # It has just taken the lock and not yet signed it.
        return Holder(pid=0, listens=None, brief=True)
