"""A bounded cache of open files and loaded indexes; the least recently opened are closed."""

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable

from mainstem.log.files.files import Files, OpenFile

MAX_INDEXES = 64
"""Maximum number of loaded indexes; that of a full segment takes about 256 KiB."""


_FEWEST = 16
"""After EMFILE (too many open files), the limit is not set lower than this."""
_OPENS_TO_GROW = 8
"""After so many opens without EMFILE the limit grows by one, up to half of the files that were open
when EMFILE came; the other half is left to the rest of the process."""


class FileCache:
    """Open files by path, at most ``limit`` of them; a file in use stays open until released."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._fewest = min(_FEWEST, limit)
        self._most = 0
        """The value up to which the limit may grow again after EMFILE."""
        self._opens = 0
        self._lock = threading.Lock()
        self.opened: OrderedDict[str, OpenFile] = OrderedDict()
        """The open files by path, in order of opening; callers may look files up directly here."""
        self._indexes: OrderedDict[str, Callable[[], None]] = OrderedDict()

    def get(self, path: str, *, create: bool = False) -> OpenFile:
        """Return an open file by its path; opens it if needed.

        A hit takes no lock and does not reorder: eviction is by age of opening, not by use. A file
        may thus be reopened needlessly, but an LRU order would make every append slower.
        """
        file = self.opened.get(path)
        if file is not None:
            return file
        with self._lock:
            file = self.opened.get(path)
            if file is not None:
                return file
            file = self._open_file(path, create)
            self.opened[path] = file
            if len(self.opened) > self._limit:
                self.opened.popitem(last=False)
            return file

    def _open_file(self, path: str, create: bool) -> OpenFile:
        try:
            file = self._files.open(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self.opened:
                raise
        else:
            self._grow()
            return file
        # The rest of the process uses more descriptors than expected: close half of ours.
        left = len(self.opened) // 2
        self._limit = max(left, self._fewest)
        self._most = max(self._most, self._limit)
        while len(self.opened) > left:
            self.opened.popitem(last=False)
        return self._files.open(path, create=create)

    def _grow(self) -> None:
        if self._limit < self._most:
            self._opens += 1
            if self._opens >= _OPENS_TO_GROW:
                self._opens = 0
                self._limit += 1

    def loaded(self, path: str, forget: Callable[[], None]) -> None:
        """Register a loaded index, and unload the oldest ones beyond the limit."""
        with self._lock:
            self._indexes[path] = forget
            oldest = None
            if len(self._indexes) > MAX_INDEXES:
                _, oldest = self._indexes.popitem(last=False)
        if oldest is not None:
            oldest()

    def drop(self, path: str) -> None:
        """Remove a file that was deleted or renamed from the cache."""
        with self._lock:
            self.opened.pop(path, None)

    def clear(self) -> None:
        """Close all files."""
        with self._lock:
            self.opened.clear()
