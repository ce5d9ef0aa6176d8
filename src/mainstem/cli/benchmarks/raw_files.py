"""Raw files, to compare with: what the operating system alone does with the same bytes."""

import os
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

Buffer = bytes | bytearray | memoryview


class RawFiles:
    """``count`` new files in a directory; deleted at the end."""

    def __init__(self, directory: Path, count: int) -> None:
        self._paths = [directory / f"bare-{number}" for number in range(count)]
        self._fds: list[int] = []

    def __enter__(self) -> "RawFiles":
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        for path in self._paths:
            self._fds.append(os.open(path, flags, 0o600))
            os.pwrite(self._fds[-1], b"first", 0)
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)
        for path in self._paths:
            path.unlink()

    def append(self, pieces: Sequence[Buffer], syncs: int) -> float:
        """Write buffers to the files in turn; fdatasync ``syncs`` times; return the seconds."""
        work = []
        ends = dict.fromkeys(self._fds, 0)
        for number, (fd, piece) in enumerate(zip(cycle(self._fds), pieces, strict=False)):
            due = (number + 1) * syncs // len(pieces) > number * syncs // len(pieces)
            work.append((fd, piece, ends[fd], due))
            ends[fd] += len(piece)
        pwrite, fdatasync = os.pwrite, os.fdatasync
        began = time.perf_counter()
        for fd, piece, position, due in work:
            pwrite(fd, piece, position)
            if due:
                fdatasync(fd)
        return time.perf_counter() - began

    def read(self, lengths: Sequence[int], passes: int) -> float:
        """Read all data in pieces of these lengths, ``passes`` times; return the seconds taken."""
        work = []
        position, files = 0, cycle(self._fds)
        fd, size = next(files), 0
        for length in lengths:
            while position + length > (size := size or os.fstat(fd).st_size):
                fd, size, position = next(files), 0, 0
            work.append((fd, length, position))
            position += length
        pread = os.pread
        began = time.perf_counter()
        for _ in range(passes):
            for fd, length, position in work:
                pread(fd, length, position)
        return time.perf_counter() - began
