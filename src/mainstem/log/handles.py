"""A bound on open files: segments open theirs when needed, and the longest unused is let go."""

import errno
import threading
from collections import OrderedDict

from mainstem.log.files import Files, OpenFile


class Handles:
    """Open files by path, at most ``limit`` of them; a file in use stays open until released."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def get(self, path: str, *, create: bool = False) -> OpenFile:
        """Return the file, opened if it is not."""
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
                return file
            file = self._open_file(path, create)
            self._open[path] = file
            if len(self._open) > self._limit:
                self._open.popitem(last=False)
            return file

    def _open_file(self, path: str, create: bool) -> OpenFile:
        try:
            return self._files.open(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
        # Others in this process took the descriptors that we counted on: make do with half.
        self._limit = max(len(self._open) // 2, 1)
        while len(self._open) > self._limit:
            self._open.popitem(last=False)
        return self._files.open(path, create=create)

    def drop(self, path: str) -> None:
        """Let go of a file, because it was deleted or renamed."""
        with self._lock:
            self._open.pop(path, None)

    def clear(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._open.clear()
