"""A segment of 64 KiB with batches of all kinds: sealed, active, or compacted."""

from random import Random
from typing import NamedTuple

from tests.faults.disk.simulated_disk import Image, SimFiles
from tests.faults.ledger import Found, read_all

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import PartitionId
from mainstem.log.segments.segment import Segment

SIZE = 64 * 1024
PARTITION = PartitionId("6" * 32, 4)
OPTIONS = Options(background=False)
KINDS = ("sealed", "active", "compacted")


class Written(NamedTuple):
    """A log that was closed, one of its segments, and what readers must see."""

    image: Image
    path: str
    index_path: str
    base: int
    expected: list[Found]


def opened(image: Image) -> DiskLog:
    """Open the log on a disk."""
    return DiskLog.open(files=SimFiles(image), now_ms=lambda: 0, options=OPTIONS)


def segment_of(log: DiskLog, path: str) -> Segment:
    """Return the segment in a file."""
    partition = log._partitions[PARTITION]
    return next(each for each in partition.segments if each.path == path)  # type: ignore[union-attr]


def write(kind: str) -> Written:
    """Write a log that has a segment of that kind, and stop cleanly."""
    rng = Random(1)
    files = SimFiles()
    log = DiskLog.open(files=files, now_ms=lambda: 0, options=OPTIONS)
    settings = TopicSettings(segment_bytes=SIZE, compact=kind == "compacted")
    log.ensure(PARTITION, "flipped", settings)
    partition = log._partitions[PARTITION]
    wanted = {"sealed": 3, "active": 2, "compacted": 4}[kind]
    number = 0
    while len(partition.segments) < wanted or partition.segments[-1].size < SIZE - 3_000:  # type: ignore[union-attr]
        log.append([(PARTITION, _batch(rng, number))])
        number += 1
    log.committer.commit()
    log.upkeep.tick()
    log.close()
    closed = opened(files.image())
    segments = closed._partitions[PARTITION].segments  # type: ignore[union-attr]
    # Of those before the active one, the last: compaction took the least out of it.
    chosen = segments[-1] if kind == "active" else segments[-2]
    expected = read_all(closed, PARTITION, 1 << 20)
    assert 0.8 * SIZE < chosen.size <= SIZE
    assert chosen.dense == (kind != "compacted")
    return Written(files.image(), chosen.path, chosen.index_path, chosen.base, expected)


def _batch(rng: Random, number: int) -> bytearray:
    """Return a batch of one or some events, short or long, as it is or compressed."""
    count = rng.choice((1, 1, 1, 2, 5, 20))
    made = [
        Event(
            rng.randbytes(rng.choice((0, 10, 100, 900))),
            key=b"key %d" % rng.randrange(2_000),
            headers=(("trace", b"%d" % number),) if count == 2 else (),
            timestamp_ms=1_000 + number * 10 + each,
        )
        for each in range(count)
    ]
    return build(made, now_ms=0, compression=rng.choice(("none", "none", "zstd", "gzip")))
