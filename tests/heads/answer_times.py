"""How long a well-behaved client waits for its answers: a second at most.

What the machine makes it wait is not counted, as other programs may keep the processors busy: the
time in which one of the threads that take part was ready to run, and had no processor.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

WITHIN_S = 1.0


class AnswerTimes:
    """The slowest answer to a client in this thread."""

    def __init__(self, server_pid: int | None = None) -> None:
        """``server_pid``: the server's process, whose event loop is in its main thread."""
        pid = os.getpid()
        threads = {(pid, pid), (pid, threading.get_native_id())}
        if server_pid is not None:
            threads.add((server_pid, server_pid))
        self._files = [Path(f"/proc/{of}/task/{thread}/schedstat") for of, thread in threads]
        self.slowest_s = 0.0
        """Without the waits for a processor."""
        self.slowest_wall_s = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure an answer, which comes within the block."""
        began_s, waited_s = time.monotonic(), self._waited_s()
        yield
        wall_s = time.monotonic() - began_s
        self.slowest_wall_s = max(self.slowest_wall_s, wall_s)
        self.slowest_s = max(self.slowest_s, wall_s - (self._waited_s() - waited_s))

    def check(self) -> None:
        """Fail if an answer took too long."""
        print(self)  # noqa: T201 - figures for whoever asks with -s
        assert self.slowest_s < WITHIN_S, str(self)

    def __str__(self) -> str:
        return (
            f"the slowest answer took {self.slowest_s * 1000:.0f} ms, and with the waits for a "
            f"processor {self.slowest_wall_s * 1000:.0f} ms"
        )

    def _waited_s(self) -> float:
        return sum(int(each.read_text().split()[1]) for each in self._files) / 1e9
