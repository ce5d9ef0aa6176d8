"""A log in a directory that a test may damage, step by step and without threads."""

from collections.abc import Sequence
from pathlib import Path

from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import Appended, Log, PartitionId

ORDERS = PartitionId("0123456789abcdef" * 2, 0)
PAYMENTS = PartitionId("fedcba9876543210" * 2, 0)
SMALL = TopicSettings(segment_bytes=2048, durability=Durability.DISK)


class Clock:
    """A clock that only moves when told to."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def open_log(path: Path, clock: Clock | None = None, **options: object) -> DiskLog:
    """Open a log that commits and keeps up only when the test says so."""
    chosen = Options(background=False, **options)  # type: ignore[arg-type]
    return DiskLog.open(path, now_ms=clock or Clock(), options=chosen)


def append(log: DiskLog, partition: PartitionId, *written: Event | bytes) -> Appended:
    """Append events as one batch, and commit."""
    as_events = [each if isinstance(each, Event) else Event(each) for each in written]
    appended = log.append([(partition, build(as_events, now_ms=0))])
    log.committer.commit()
    return appended


def fill(log: DiskLog, partition: PartitionId, values: Sequence[bytes]) -> None:
    """Append one batch per value."""
    for value in values:
        append(log, partition, value)


def stored(log: Log, partition: PartitionId) -> list[tuple[int, bytes | None]]:
    """Read everything that readers can see, as (offset, value)."""
    found = []
    start, tail = log.bounds(partition)[:2]
    offset = start
    while offset < tail:
        data = log.read(partition, offset, 1000).tobytes()
        if not data:
            break
        for batch in batches(data):
            found += [(each.offset, each.value) for each in events(batch) if each.offset >= offset]
            last = read_header(batch).last_offset
        offset = last + 1
    return found


def write(log: DiskLog, partition: PartitionId, value: bytes) -> tuple[int, bytes | None]:
    """Append an event and wait for the acknowledgement."""
    appended = append(log, partition, value)
    assert appended.durable.wait(10)
    return appended.offsets[0], value
