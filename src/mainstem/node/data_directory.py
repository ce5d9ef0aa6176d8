"""Inspects a data directory without locking it: which process has it open, and its format."""

import fcntl
import os
from pathlib import Path

import msgspec

from mainstem.log.commit import manifest
from mainstem.log.files.read_only import ReadOnlyFiles
from mainstem.log.files.symlinks import open_lock, read_lock

FORMAT = manifest.FORMAT


class Holder(msgspec.Struct, frozen=True):
    """The process that has a data directory open and locked."""

    pid: int
    listens: str | None
    """The Kafka address at which the process listens; None if it does not listen."""
    admin: str | None = None
    """The address of the process's admin port; None if it has none."""
    brief: bool = False
    """Whether the process is a short-lived command."""


def is_log(path: Path) -> bool:
    """Return whether a directory has a log in it."""
    return (path / "partitions").is_dir()


def holder_of(path: Path) -> Holder | None:
    """Return the process that has a data directory open; None if no process has."""
    try:
        fd = open_lock(os.fspath(path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        # A shared lock, so that two processes that check do not take each other for the holder.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(read_lock(fd))
    else:
        return None
    finally:
        os.close(fd)


def check_format(path: Path) -> list[str]:
    """Return the manifest's damage as texts; raises FormatTooNew or DamagedLog if unusable."""
    _, damage = manifest.read(ReadOnlyFiles(path))
    return damage


def _read(text: bytes) -> Holder:
    try:
        return msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        # The holder has locked the file and not yet written its description to it.
        return Holder(pid=0, listens=None, brief=True)
