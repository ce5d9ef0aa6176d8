"""Every implementation of the log, so that each law is checked on all."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.memory import MemoryLog
from mainstem.log.options import Options
from mainstem.log.port import Log, PartitionId, Slice


class OpenLog(Log, Protocol):
    """A log that a test opened and closes again."""

    def close(self) -> None: ...


class QuietLog(NamedTuple):
    """A log without threads: it commits and keeps up when told to."""

    log: OpenLog
    commit: Callable[[], None]
    keep_up: Callable[[], None]


OpenQuiet = Callable[[Callable[[], int]], QuietLog]
"""Opens a log whose clock is given; a fixture closes it in the end."""


def open_quiet_log(kind: str, path: Path, now_ms: Callable[[], int]) -> QuietLog:
    """Open a log in memory or on disk."""
    if kind == "memory":
        memory = MemoryLog(now_ms=now_ms)
        return QuietLog(memory, lambda: None, memory.upkeep)
    disk = DiskLog.open(path, now_ms=now_ms, options=Options(background=False))
    return QuietLog(disk, disk.committer.commit, disk.upkeep.tick)


FACTORIES: dict[str, Callable[[Path], OpenLog]] = {
    "memory": lambda _: MemoryLog(),
    "disk": lambda path: DiskLog.open(path, now_ms=lambda: 0),
}
"""How to open each log in a directory; opening a durable one again finds what was appended."""

DURABLE: frozenset[str] = frozenset({"disk"})
"""The logs that keep what they hold when they are closed and opened again."""

TOPIC_ID = "0123456789abcdef0123456789abcdef"
FIRST = PartitionId(TOPIC_ID, 0)
SECOND = PartitionId(TOPIC_ID, 1)
UNKNOWN = PartitionId("f" * 32, 7)


class Calls:
    """Counts wakes, from any thread."""

    def __init__(self) -> None:
        self.count = 0
        self.woken = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self.woken.set()


def open_partitions(
    log: Log, *partitions: PartitionId, settings: TopicSettings | None = None
) -> None:
    """Create partitions of one topic, both of the usual ones unless told which."""
    for partition in partitions or (FIRST, SECOND):
        log.ensure(partition, "orders", settings or TopicSettings(partitions=2))


def batch_of(*values: bytes, timestamps_ms: Sequence[int] = ()) -> bytearray:
    """Build one record batch of events with these values."""
    times = timestamps_ms or [1_000] * len(values)
    written = [Event(value, timestamp_ms=time) for value, time in zip(values, times, strict=True)]
    return build(written, now_ms=0)


def append(log: Log, partition: PartitionId, *values: bytes) -> int:
    """Append one batch, wait until it is durable, and return its first offset."""
    appended = log.append([(partition, batch_of(*values))])
    assert appended.durable.wait(30)
    return appended.offsets[0]


def events_in(read: Slice) -> list[tuple[int, bytes]]:
    """Return (offset, value) of every event in a slice."""
    return [
        (event.offset, event.value or b"")
        for batch in batches(read.tobytes())
        for event in events(batch)
    ]


def all_events(log: Log, partition: PartitionId) -> list[tuple[int, bytes]]:
    """Read a partition from its start to its tail a little at a time, as consumers do."""
    start, tail = log.bounds(partition)[:2]
    found: list[tuple[int, bytes]] = []
    offset = start
    while offset < tail:
        read = log.read(partition, offset, 1)
        assert read.length, f"nothing at {offset}, though the tail is {tail}"
        found += [each for each in events_in(read) if each[0] >= offset]
        *_, last = batches(read.tobytes())
        assert read_header(last).last_offset >= offset, f"only what is before {offset}"
        offset = read_header(last).last_offset + 1
    assert offset == max(start, tail), f"the last batch stands for more than is before {tail}"
    return found
