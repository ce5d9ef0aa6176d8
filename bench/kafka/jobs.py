"""What a process of load is asked for, and how it reports: a line of JSON each, stdin and stdout.

Every job has an ``address`` and a ``topic``. ``produce`` and ``consume`` report once they are
connected, and then the seconds and the processor time that it took this process; ``tail`` reports
once it is at the tail, and then the latencies of the events that ``pace`` sends meanwhile from
another process.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import TypedDict

PATIENCE_S = 60
STAMP = Struct(">q")
"""When an event was made, at its beginning, for ``tail``."""


class Job(TypedDict, total=False):
    """What can be asked for."""

    do: str
    address: str
    topic: str
    partitions: int
    touched: int
    size: int
    events: int
    readers: int
    rate: int
    settings: dict[str, object]


class Clock:
    """Times a block, and what processor time it takes here."""

    def __enter__(self) -> "Clock":
        self._cpu_s = _cpu_s()
        self.seconds = self.cpu_s = 0.0
        self.began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.began
        self.cpu_s = _cpu_s() - self._cpu_s


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def stamped(job: Job) -> Iterator[bytes]:
    """Yield the events of ``pace``, each when it is due."""
    padding = bytes(job["size"] - STAMP.size)
    began = time.perf_counter()
    for number in range(job["events"]):
        early_s = began + number / job["rate"] - time.perf_counter()
        if early_s > 0:
            time.sleep(early_s)
        yield STAMP.pack(time.time_ns()) + padding


def touched(job: Job) -> int:
    """Return how many partitions get an event to begin with, which connects."""
    return job.get("touched", 1)


def report(**figures: float) -> None:
    """Say what was found."""
    print(json.dumps(figures), flush=True)


def report_ages(ages: list[int]) -> None:
    """Say how old events were, in nanoseconds, but for the first quarter, a warm-up."""
    ages = sorted(ages[len(ages) // 4 :])
    report(
        p50_ms=ages[len(ages) // 2] / 1e6,
        p99_ms=ages[len(ages) * 99 // 100] / 1e6,
        highest_ms=ages[-1] / 1e6,
    )


def serve(jobs: Mapping[str, Callable[[Job], None]]) -> None:
    """Do what is asked for, until nothing more is."""
    for line in sys.stdin:
        asked: Job = json.loads(line)
        jobs[asked["do"]](asked)
