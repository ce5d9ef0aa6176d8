"""Batches settlements made with ``wait=False``: collects them, and soon writes them together.

How this works: collected settlements are written when there are ``WINDOW`` of them, when the
consumer finds no more events, before any other settlement of the consumer, and after ``LINGER_S``
at the latest, by a thread that runs while there is something to write. At most ``MAX_WRITES``
writes may wait for the disk: beyond that, the next settlement waits for the oldest of them.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from mainstem.broker.door import AT_ONCE, Durable, Settled, Settlement
from mainstem.core.errors import Closed, MainstemError

WINDOW = 100
"""Number of collected settlements that triggers a write."""
LINGER_S = 0.02
"""Seconds that a settlement waits for others to share its write."""
MAX_WRITES = 8

Write = Callable[[Sequence[Settlement]], Settled]


class SettlementWindow:
    """Collects settlements of one consumer and writes them together; thread-safe."""

    def __init__(self, write: Write, linger_s: float = LINGER_S) -> None:
        self._write, self._linger_s = write, linger_s
        self._lock = threading.Lock()
        """Guards the attributes below; held during writes, so that ``flush`` waits for them."""
        self._waiting: list[Settlement] = []
        self._writes: deque[Durable] = deque()
        self.written = 0
        """Number of writes so far; read without the lock."""
        self._has_thread = False
        self._closed = threading.Event()
        self._failed: deque[MainstemError] = deque()

    def add(self, settlement: Settlement) -> Durable:
        """Collect a settlement, and write if there are enough.

        The caller must wait for the write that this returns, so that not too many wait for the
        disk; usually it is durable already.
        """
        with self._lock:
            if self._closed.is_set():
                # Another thread has closed the queue since the caller found it open.
                raise Closed(
                    "the queue was closed before this delivery was settled; it is redelivered"
                )
            self._waiting.append(settlement)
            if len(self._waiting) >= WINDOW:
                self._write_all()
            elif not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="mainstem-settle", daemon=True).start()
            return self._writes.popleft() if len(self._writes) > MAX_WRITES else AT_ONCE

    def flush(self) -> None:
        """Write the collected settlements, also those that another thread is just writing."""
        if not self._waiting and not self._lock.locked():
            return
        with self._lock:
            self._write_all()

    def close(self) -> None:
        """Write the collected settlements, and refuse further ones."""
        with self._lock:
            self._closed.set()
            self._write_all()

    def check(self) -> None:
        """Raise the first error of a write since the last call; its notes list the others."""
        if not self._failed:
            return
        error = self._failed.popleft()
        while self._failed:
            error.add_note(f"as well: {self._failed.popleft()}")
        raise error

    def _write_all(self) -> bool:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return False
        try:
            settled = self._write(waiting)
        except MainstemError as error:
            self._failed.append(error)
            return True
        finally:
            self.written += 1
        self._failed.extend(settled.refused.values())
        while self._writes and self._writes[0].done:
            self._writes.popleft()
        if not settled.durable.done:
            self._writes.append(settled.durable)
        settled.durable.then(self._decided)
        return True

    def _decided(self, error: MainstemError | None) -> None:
        if error is not None:
            self._failed.append(error)

    def _run(self) -> None:
        while True:
            self._closed.wait(self._linger_s)
            with self._lock:
                if not self._write_all():
                    self._has_thread = False
                    return
