"""Inspects a data directory without locking it: which process holds it, and its format."""

import fcntl
import os
from pathlib import Path

import msgspec

from mainstem.log.commit import manifest
from mainstem.log.files.read_only import ReadOnlyFiles
from mainstem.log.files.symlinks import open_lock, read_lock

FORMAT = manifest.FORMAT


class Holder(msgspec.Struct, frozen=True):
    """The process that has a data directory open (locked)."""

    pid: int
    listens: str | None
    """The Kafka address at which the process listens; None if it does not listen."""
    admin: str | None = None
    """The address of the process's admin port; None if it has none."""
    brief: bool = False
    """Whether the process is a short-lived command."""


def is_log(path: Path) -> bool:
    """Tell whether a directory holds a log."""
    return (path / "partitions").is_dir()


def holder_of(path: Path) -> Holder | None:
    """Return the process that holds a data directory; None if no process does."""
    try:
        fd = open_lock(os.fspath(path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two processes that check do not take each other for the holder.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(read_lock(fd))
    else:
        return None
    finally:
        os.close(fd)


def check_format(path: Path) -> list[str]:
    """Return the damage found in the manifest; raises FormatTooNew or DamagedLog if unusable."""
    _, damage = manifest.read(ReadOnlyFiles(path))
    return damage


def _read(text: bytes) -> Holder:
    try:
        return msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        # The holder has just locked the file and not yet written to it.
        return Holder(pid=0, listens=None, brief=True)
