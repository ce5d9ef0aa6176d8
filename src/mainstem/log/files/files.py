"""The file-system port: every disk access of the log, so that tests can simulate the disk.

Paths are relative to the data directory. A write either completes or raises; what a failed write
leaves behind is never read, since the log keeps its own sizes.
"""

import ctypes
import errno
import fcntl
import json
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from mainstem.core.errors import DirectoryInUse, StorageFailed, StorageFull
from mainstem.log.files.symlinks import check_no_links, open_file, open_lock, read_lock

Buffer = bytes | bytearray | memoryview

_libc = ctypes.CDLL(None, use_errno=True)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

READERS_S = 10.0
"""How many seconds locking a directory waits for processes that only read it."""
_LOOK_S = 0.005

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FAULTS = _FULL | {errno.EIO}
"""Errors of the disk itself, unlike a wrong path or missing permission."""


class OpenFile(Protocol):
    """One open file; closed when no longer referenced."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def pread(self, length: int, position: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``, or raise OSError."""

    def allocate(self, position: int, length: int) -> None:
        """Reserve space, which reads as zeros, or raise OSError with nothing changed."""

    def size(self) -> int:
        """Return the size in bytes."""

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it with zeros."""

    def sync(self) -> None:
        """Make all writes durable (fdatasync)."""


class Files(Protocol):
    """A directory tree: the port through which the log accesses the disk."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Open for reading and writing; raises FileNotFoundError unless created."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; no error if it exists."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file; replaces an existing file of the new name."""

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory; no error if it does not exist."""

    def sync_dir(self, path: str) -> None:
        """Make the entries of a directory durable (fsync)."""

    def sync_all(self) -> None:
        """Make all writes in the tree durable, directory entries included (syncfs)."""

    def salt(self) -> int:
        """Return a random 32-bit number."""

    def lock(self, listens: str | None, admin: str | None = None) -> None:
        """Lock the directory for this process, or raise DirectoryInUse naming the holder.

        The lock file tells other processes the addresses ``listens`` (for Kafka clients) and
        ``admin``.
        """

    def check_there(self) -> None:
        """Raise OSError if the data directory was deleted: writes to its files would be lost."""

    def unlock(self) -> None:
        """Unlock the directory."""


def refusal(error: OSError, what: str) -> StorageFull | StorageFailed:
    """Convert an OSError to StorageFull or StorageFailed."""
    if error.errno in _FULL:
        return StorageFull(
            f"no space left while {what} ({error.strerror}): nothing of it was kept; "
            "free some space or shorten retention, then try again"
        )
    return StorageFailed(
        f"the disk failed while {what} ({error}): nothing more is acknowledged; "
        "check the disk, then reopen the log, which verifies itself"
    )


class RealFile:
    """A file descriptor that is closed with its last reference."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def pread(self, length: int, position: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        got = len(data)
        # One call returns at most 2 GiB, and may be cut short by a signal.
        while got < length and (data := os.pread(self._fd, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``, or raise OSError."""
        written = os.pwrite(self._fd, data, position)
        if written != len(data):
            rest = memoryview(data)
            while written < len(rest):
                written += os.pwrite(self._fd, rest[written:], position + written)

    def allocate(self, position: int, length: int) -> None:
        """Reserve space, which reads as zeros."""
        os.posix_fallocate(self._fd, position, length)

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it with zeros."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Make all writes durable (fdatasync)."""
        os.fdatasync(self._fd)


class RealFiles:
    """A directory of the operating system."""

    def __init__(self, root: Path, *, brief: bool = False) -> None:
        """Use a directory; ``brief``: the lock file says that this process ends soon."""
        self._root = os.fspath(root)
        self._brief = brief
        self._lock_fd = -1
        self._spare_fd = -1
        """A spare descriptor: closed on EMFILE, so that a directory can still be opened and synced.
        """
        self._spare_lock = threading.Lock()

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open for reading and writing."""
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return RealFile(open_file(self._path(path), flags))

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""
        full = self._path(path)
        try:
            os.mkdir(full, 0o750)  # noqa: PTH102 - hot with many topics
        except (FileExistsError, FileNotFoundError):
            os.makedirs(full, 0o750, exist_ok=True)  # noqa: PTH103 - asks more, and is seldom needed

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        try:
            return sorted(os.listdir(self._path(path)))  # noqa: PTH208 - hot with many topics
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        """Rename a file; replaces an existing file of the new name."""
        Path(self._path(old)).replace(self._path(new))

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""
        full = Path(self._path(path))
        try:
            full.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            full.rmdir()

    def sync_dir(self, path: str) -> None:
        """Make the entries of a directory durable (fsync)."""
        with self._directory(path) as fd:
            os.fsync(fd)

    def sync_all(self) -> None:
        """Make all writes in the tree durable, directory entries included (syncfs).

        Linux reports failed writes here since 5.8; before, only fsync of each file does.
        """
        with self._directory("") as fd:
            if _libc.syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

    @contextmanager
    def _directory(self, path: str) -> Iterator[int]:
        try:
            fd = os.open(self._path(path), _DIRECTORY)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            with self._spare_lock:
                if self._spare_fd >= 0:
                    os.close(self._spare_fd)
                    self._spare_fd = -1
                self._spare_fd = os.open(self._path(path), _DIRECTORY)
                yield self._spare_fd
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def salt(self) -> int:
        """Return a random 32-bit number."""
        return int.from_bytes(os.urandom(4), "big")

    def lock(self, listens: str | None, admin: str | None = None) -> None:
        """Lock the directory for this process; idempotent.

        The kernel releases the flock when its holder ends; a lock file without a flock is stale.
        """
        if self._lock_fd >= 0:
            return
        check_no_links(self._root)
        fd = open_lock(self._root, os.O_RDWR | os.O_CREAT)
        if not _take(fd):
            holder = read_lock(fd)
            os.close(fd)
            raise DirectoryInUse(in_use(self._root, holder))
        about = {"pid": os.getpid(), "listens": listens, "admin": admin, "brief": self._brief}
        os.ftruncate(fd, 0)
        # Naming the holder is optional: a full disk must not prevent opening.
        with suppress(OSError):
            os.pwrite(fd, json.dumps(about).encode(), 0)
        self._lock_fd = fd
        with suppress(OSError):
            self._spare_fd = os.open(self._root, _DIRECTORY)
        _forget_in_children(self)

    def check_there(self) -> None:
        """Raise OSError if the directory was deleted, and with it the lock file."""
        if self._lock_fd >= 0 and os.fstat(self._lock_fd).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the data directory was deleted", self._root)

    def unlock(self) -> None:
        """Unlock the directory."""
        if self._lock_fd >= 0:
            os.ftruncate(self._lock_fd, 0)
            # A forked process may still have the descriptor.
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
            self.forget_lock()

    def forget_lock(self) -> None:
        """Close the descriptors without unlocking: a process that inherited them keeps the lock."""
        for fd in (self._lock_fd, self._spare_fd):
            if fd >= 0:
                os.close(fd)
        self._lock_fd = self._spare_fd = -1


def _take(fd: int) -> bool:
    """Take an exclusive flock; return False if a writer holds it.

    Waits for readers, which normally finish soon, for at most READERS_S.
    """
    patience = time.monotonic() + READERS_S
    while True:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        # Unlock again, so that two waiting processes do not block each other.
        fcntl.flock(fd, fcntl.LOCK_UN)
        if time.monotonic() >= patience:
            return False
        time.sleep(_LOOK_S)


def _forget_in_children(files: RealFiles) -> None:
    """Close the lock in forked children, so that they do not keep it when the holder ends."""
    known = weakref.ref(files)

    def forget() -> None:
        held = known()
        if held is not None:
            held.forget_lock()

    os.register_at_fork(after_in_child=forget)


def in_use(root: str, holder: bytes) -> str:
    """Return a message: which process holds the directory, by its lock file, and what to do."""
    try:
        about = json.loads(holder)
        pid, listens = int(about["pid"]), about["listens"]
    except (ValueError, KeyError, TypeError):
        return f"{root} is held by another process; stop it, or use another directory"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeDecodeError):
        command = "a process of another container or machine"
    instead = (
        f"connect to it at {listens} instead"
        if listens
        else "it does not listen on the network: stop it, or let it be a server "
        "(mainstem serve), which many can use at once"
    )
    return f"{root} is held by process {pid} ({command:.100}); {instead}"
