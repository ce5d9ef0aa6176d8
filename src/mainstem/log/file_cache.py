"""Bounds on open files and loaded indexes: what was opened the longest ago is let go."""

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable

from mainstem.log.files import Files, OpenFile

MAX_INDEXES = 64
"""Of full segments of the default size each takes about a quarter of a megabyte."""


_FEWEST = 16
"""A lack of descriptors does not bring the limit below this, as it may be over soon."""
_OPENS_TO_GROW = 8
"""So many files opened without a lack let the limit grow by one again, up to half of what there was
room for at best when there was a lack: the other half is for those who do not open files here."""


class FileCache:
    """Open files by path, at most ``limit`` of them; a file in use stays open until released."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._fewest = min(_FEWEST, limit)
        self._most = 0
        """What the limit may grow to, once there was a lack of descriptors."""
        self._opens = 0
        self._lock = threading.Lock()
        self.opened: OrderedDict[str, OpenFile] = OrderedDict()
        """Whoever finds a file here need not ask for it."""
        self._indexes: OrderedDict[str, Callable[[], None]] = OrderedDict()

    def get(self, path: str, *, create: bool = False) -> OpenFile:
        """Return the file, opened if it is not.

        Finding one that is open takes no lock and keeps no order: what was opened the longest ago
        is let go first, which costs an opening now and then, where order would cost each append.
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
        # Others in this process took the descriptors that we counted on: make do with half.
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
        """Take note of an index read from its file, and let an older one be forgotten."""
        with self._lock:
            self._indexes[path] = forget
            oldest = None
            if len(self._indexes) > MAX_INDEXES:
                _, oldest = self._indexes.popitem(last=False)
        if oldest is not None:
            oldest()

    def drop(self, path: str) -> None:
        """Let go of a file, because it was deleted or renamed."""
        with self._lock:
            self.opened.pop(path, None)

    def clear(self) -> None:
        """Let go of all files."""
        with self._lock:
            self.opened.clear()
