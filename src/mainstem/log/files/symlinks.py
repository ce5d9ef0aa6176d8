"""Opening files of a data directory without following symbolic links.

A data directory may come from somebody else. If its ``lock`` were a symlink, opening it would
truncate any file that this user can write. So no file or directory inside may be a symlink; the
data directory itself may. A ``lock`` file is overwritten only if its contents look like those of a
mainstem lock file.
"""

import errno
import os
import stat

from mainstem.core.errors import LinkedFile

_DIRECTORIES = ("", "partitions", "wal", "quarantine")
_LOCK_BYTES = 4096
_LOCK_BEGINS = b'{"pid"'


def open_file(path: str, flags: int, mode: int = 0o640) -> int:
    """Open a file, close-on-exec; raises LinkedFile if it is a symlink."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LinkedFile(path) from None
        raise


def open_lock(root: str, flags: int) -> int:
    """Open the lock file; raises LinkedFile if it is a link, or not a lock file."""
    path = f"{root}/lock"
    # O_NONBLOCK: opening a FIFO would wait for ever.
    fd = open_file(path, flags | os.O_NONBLOCK)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise LinkedFile(path, "not a file")
    begins = os.pread(fd, len(_LOCK_BEGINS), 0)
    if begins and (begins != _LOCK_BEGINS or found.st_size > _LOCK_BYTES):
        os.close(fd)
        raise LinkedFile(path, "not a lock file of mainstem, so it is not overwritten")
    return fd


def read_lock(fd: int) -> bytes:
    """Return the contents of the lock file, written by its holder."""
    return os.pread(fd, _LOCK_BYTES, 0)


def check_no_links(root: str) -> None:
    """Raise LinkedFile if the data directory contains a link, or a partition's directory is one."""
    for directory in _DIRECTORIES:
        place = f"{root}/{directory}" if directory else root
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    # Settings are only read, and may be kept elsewhere.
                    if entry.is_symlink() and entry.name != "mainstem.toml":
                        raise LinkedFile(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
