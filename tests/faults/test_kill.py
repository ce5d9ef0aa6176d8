"""kill -9 at any moment, also while recovering: nothing acknowledged is lost."""

import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.long_runs import seeds

PARTITIONS = 6
ACK = struct.Struct(">BQ")
SECONDS = 20 if not os.environ.get("MAINSTEM_LONG") else 600
WRITER = """
import os, struct, sys, time
from pathlib import Path
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.core.records import build
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import PartitionId

path, count = Path(sys.argv[1]), int(sys.argv[2])
options = Options(
    checkpoint_wal_bytes=20_000, checkpoint_bytes=60_000, checkpoint_batches=200, upkeep_ms=5,
    large_batch_bytes=4_000, wal_step_bytes=4096, sync_all_from=4,
)
log = DiskLog.open(path, now_ms=lambda: time.time_ns() // 1_000_000, options=options)
ids = [PartitionId(f"{number:032x}", 0) for number in range(count)]
for number, each in enumerate(ids):
    durability = Durability.DISK if number % 2 else Durability.FSYNC
    settings = TopicSettings(durability=durability, segment_bytes=8_000)
    log.ensure(each, f"topic{number}", settings)
os.write(1, b"R")
ack = struct.Struct(">BQ")
turn = 0
while True:
    turn += 1
    number = turn % count
    chosen = [number] if turn % 5 else [number, (number + 1) % count]
    written = []
    for each in chosen:
        end = log.bounds(ids[each]).end
        size = 5_000 if turn % 17 == 0 else 50
        value = b"%d:%d:" % (each, end) + b"x" * size
        written.append((ids[each], build([Event(value)], now_ms=1)))
    appended = log.append(written)
    appended.durable.wait()
    os.write(1, b"".join(ack.pack(n, o) for n, o in zip(chosen, appended.offsets)))
"""
READER = """
import sys, time
from pathlib import Path
from mainstem.core.batch import batches, read_header
from mainstem.core.records import events
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId

log = DiskLog.open(Path(sys.argv[1]), now_ms=lambda: time.time_ns() // 1_000_000)
for number in range(int(sys.argv[2])):
    each = PartitionId(f"{number:032x}", 0)
    offset, tail = log.bounds(each)[:2]
    assert offset == 0
    while offset < tail:
        for batch in batches(log.read(each, offset, 1 << 20).tobytes()):
            for event in events(batch):
                assert event.value.startswith(b"%d:%d:" % (number, event.offset)), event
                assert event.offset == offset
                offset += 1
    print(tail)
for finding in log.recovery.findings:
    print("finding", finding)
log.close()
"""


def recovered_tails(path: Path) -> list[int]:
    """Open the directory in another process; return the tails of its partitions."""
    reader = [sys.executable, "-c", READER, str(path), str(PARTITIONS)]
    checked = subprocess.run(reader, check=True, capture_output=True, text=True)
    return [int(line) for line in checked.stdout.split("\n") if line.isdigit()]


def acknowledged(written: bytes, known: list[int]) -> list[int]:
    """Return, by partition, how many events were acknowledged."""
    for number, offset in ACK.iter_unpack(written[: len(written) // ACK.size * ACK.size]):
        known[number] = max(known[number], offset + 1)
    return known


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", seeds(4, 1, 60))
def test_nothing_acknowledged_is_lost_by_kill_9_at_any_moment(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    known = [0] * PARTITIONS
    kills = in_recovery = 0
    until = time.monotonic() + SECONDS

    while time.monotonic() < until:
        arguments = [sys.executable, "-c", WRITER, str(tmp_path), str(PARTITIONS)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            ready = b""
            if rng.random() < 0.3:
                # Somewhere between starting Python and the end of recovery.
                timeout_s = rng.uniform(0.12, 0.4)
                in_recovery += 1
            else:
                ready = writer.stdout.read(1)
                timeout_s = rng.uniform(0.0, 0.25)
            try:
                writer.wait(timeout_s)
            except subprocess.TimeoutExpired:
                writer.send_signal(signal.SIGKILL)
            written = ready + writer.stdout.read()
            assert writer.wait() == -signal.SIGKILL
        known = acknowledged(written.removeprefix(b"R"), known)
        kills += 1

    tails = recovered_tails(tmp_path)
    lost = [max(0, ack - tail) for ack, tail in zip(known, tails, strict=True)]
    assert lost == [0] * PARTITIONS
    assert kills > 10
    assert in_recovery > 2
    assert sum(known) > 1000
