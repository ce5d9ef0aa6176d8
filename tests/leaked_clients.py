"""Fails tests that leave Kafka clients open, which hold threads, memory and connections.

Every client of librdkafka has one thread that is called ``rdk:main``, from when it is made until it
is closed or collected. Others, for its brokers, come and go as it learns of them.
"""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")
_MAIN = "rdk:main"
_CLOSED_S = 10.0


@contextmanager
def no_clients_left() -> Iterator[None]:
    """Fail if there are more clients after a block than before it."""
    before = kafka_clients()
    yield
    left = clients_left(before, _CLOSED_S)
    assert not left, (
        f"{left} Kafka clients are left open: close consumers and stems, and let nothing refer to "
        "producers and admin clients in the end"
    )


def kafka_clients() -> int:
    """Return how many clients of librdkafka this process has."""
    found = 0
    for task in _TASKS.iterdir() if _TASKS.exists() else ():
        # A thread may end while we look.
        with suppress(OSError):
            found += (task / "comm").read_text().strip() == _MAIN
    return found


def clients_left(before: int, within_s: float) -> int:
    """Return how many clients more there are than before, as soon as there are none, or in time."""
    until = time.monotonic() + within_s
    while (left := kafka_clients() - before) > 0:
        gc.collect()
        if time.monotonic() > until:
            break
        # The threads of a client that was closed end a moment later.
        threading.Event().wait(0.01)
    return max(0, left)
