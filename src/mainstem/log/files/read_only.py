"""Files of a data directory opened read-only: writes stay in memory.

How this works: the log opens the directory as usual, recovery included, but on files that keep
written pages in memory. So it works on a read-only file system, and changes nothing on any other.
The flock is shared: a process that writes excludes readers, readers do not exclude one another.
Once the log is open, a reader may unlock: batches never move, an open file outlives its deletion,
and the ends of all partitions are known.
"""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from mainstem.core.errors import DirectoryInUse
from mainstem.log.files.files import Buffer, RealFile, RealFiles, in_use
from mainstem.log.files.symlinks import check_no_links, open_file, open_lock, read_lock

_PAGE_BYTES = 64 * 1024


class LayeredFile:
    """A file on disk, overlaid by pages changed in memory."""

    def __init__(self, files: "ReadOnlyFiles", path: str, below: RealFile | None) -> None:
        self.path = path
        self._files = files
        self._below = below
        self._size = self._below_size = 0 if below is None else below.size()
        self._pages: dict[int, bytearray] = {}

    def fileno(self) -> int:
        """Return -1: the descriptor would not show the changed pages."""
        return -1

    def pread(self, length: int, position: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""
        end = min(position + length, self._size)
        if end <= position:
            return b""
        if not self._pages:
            return self._read_below(position, end)
        found = bytearray()
        while position < end:
            number, start = divmod(position, _PAGE_BYTES)
            stop = min(end, (number + 1) * _PAGE_BYTES)
            page = self._pages.get(number)
            if page is None:
                found += self._read_below(position, stop)
            else:
                found += page[start : start + stop - position]
            position = stop
        return bytes(found)

    def pwrite(self, data: Buffer, position: int) -> None:
        """Keep all of ``data`` in memory."""
        self._files.changed(self)
        rest = memoryview(data)
        self._size = max(self._size, position + len(rest))
        while rest:
            number, start = divmod(position, _PAGE_BYTES)
            piece = rest[: _PAGE_BYTES - start]
            self._page(number)[start : start + len(piece)] = piece
            position += len(piece)
            rest = rest[len(piece) :]

    def allocate(self, position: int, length: int) -> None:
        """Extend the file with zeros."""
        self._files.changed(self)
        self._size = max(self._size, position + length)

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it with zeros."""
        self._files.changed(self)
        if size < self._size:
            number, start = divmod(size, _PAGE_BYTES)
            if number in self._pages:
                self._pages[number][start:] = bytes(_PAGE_BYTES - start)
            self._pages = {each: page for each, page in self._pages.items() if each <= number}
            self._below_size = min(self._below_size, size)
        self._size = size

    def sync(self) -> None:
        """Do nothing: there is nothing to make durable."""

    def _page(self, number: int) -> bytearray:
        page = self._pages.get(number)
        if page is None:
            begin = number * _PAGE_BYTES
            page = bytearray(self._read_below(begin, begin + _PAGE_BYTES))
            self._pages[number] = page
        return page

    def _read_below(self, position: int, end: int) -> bytes:
        """Return bytes as they are on disk, with zeros beyond the end of the file."""
        there = max(0, min(end, self._below_size) - position)
        data = b"" if self._below is None or not there else self._below.pread(there, position)
        return data + bytes(end - position - len(data))


class ReadOnlyFiles:
    """Implements the port ``Files`` on a directory without changing it."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._real = RealFiles(root)
        self._lock_fd = -1
        self._open: WeakValueDictionary[str, LayeredFile] = WeakValueDictionary()
        self._changed: dict[str, LayeredFile] = {}
        self._made: set[str] = set()
        self._gone: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> LayeredFile:
        """Open for reading, and for writing into memory."""
        file = self._changed.get(path) or self._open.get(path)
        if file is None:
            try:
                file = LayeredFile(self, path, self._below(path))
            except FileNotFoundError:
                if not create:
                    raise
                file = LayeredFile(self, path, None)
                self._changed[path] = file
            self._open[path] = file
        return file

    def changed(self, file: LayeredFile) -> None:
        """Keep a file open whose contents now differ from the disk, as its pages are in memory."""
        if self._open.get(file.path) is file:
            self._changed[file.path] = file

    def make_dir(self, path: str) -> None:
        """Add a directory in memory only."""
        self._made.add(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        prefix = f"{path}/" if path else ""
        found = {name for name in self._real.names(path) if prefix + name not in self._gone}
        for each in (*self._changed, *self._made):
            if each.startswith(prefix) and "/" not in each[len(prefix) :]:
                found.add(each[len(prefix) :])
        return sorted(found)

    def rename(self, old: str, new: str) -> None:
        """Rename a file in memory only; replaces an existing file of the new name."""
        file = self.open(old)
        self.remove(old)
        file.path = new
        self._open[new] = self._changed[new] = file

    def remove(self, path: str) -> None:
        """Hide a file or directory, which stays on disk."""
        self._changed.pop(path, None)
        self._open.pop(path, None)
        self._made.discard(path)
        self._gone.add(path)

    def sync_dir(self, path: str) -> None:
        """Do nothing: there is nothing to make durable."""

    def sync_all(self) -> None:
        """Do nothing: there is nothing to make durable."""

    def salt(self) -> int:
        """Return a random 32-bit number."""
        return self._real.salt()

    def lock(self, listens: str | None, admin: str | None = None) -> None:
        """Take a shared lock, or raise DirectoryInUse if a writer holds it; creates no file."""
        if self._lock_fd >= 0:
            return
        check_no_links(self._root)
        try:
            fd = open_lock(self._root, os.O_RDONLY)
        except FileNotFoundError:
            # Without a lock file there is no writer: a writer creates it first.
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            holder = read_lock(fd)
            os.close(fd)
            raise DirectoryInUse(in_use(self._root, holder)) from None
        self._lock_fd = fd

    def check_there(self) -> None:
        """Do nothing: nothing is written."""

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _below(self, path: str) -> RealFile:
        if path in self._gone:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return RealFile(open_file(f"{self._root}/{path}", os.O_RDONLY))

    def __del__(self) -> None:
        with suppress(OSError):
            self.unlock()
