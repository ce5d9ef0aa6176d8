"""Real power cuts: a file system of our own that stops in the middle of everything.

How this works: an ext4 file system in a file is told to shut down without flushing its journal,
which leaves on the "disk" only what had been synced. A writer in a process of its own says what
it found when it opened the log, then acknowledges what has become durable; only what we had read
of that before the cut counts. Each life of the log goes on where the last one was cut off.
"""

import fcntl
import json
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.long_runs import seeds

CUTS = 14
SECONDS = 15
CONTROL_CUTS = 10
SHUTDOWN, WITHOUT_FLUSH = 0x8004587D, struct.pack("I", 2)
PAIRED = ("2", "3")
"""The partitions that get events together."""

Found = dict[str, list[tuple[int, str, int]]]
"""Offset, name and checksum of each event, by partition."""

WRITER = """
import json, sys, time, zlib
from pathlib import Path
from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.core.records import build, events
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import PartitionId

path, durability, life = Path(sys.argv[1]), Durability(sys.argv[2]), int(sys.argv[3])
settings = TopicSettings(partitions=4, durability=durability, segment_bytes=4096)
options = Options(
    wal_step_bytes=16384, checkpoint_wal_bytes=65536, checkpoint_batches=30, upkeep_ms=3,
    large_batch_bytes=2048, sync_all_from=2 if life % 2 else 32,
)
partitions = [PartitionId("c0ffee00" * 4, number) for number in range(4)]
log = DiskLog.open(path, now_ms=lambda: time.time_ns() // 1_000_000, options=options)

def say(what):
    sys.stdout.write(json.dumps(what) + "\\n")
    sys.stdout.flush()

def stored(partition):
    offset, tail = log.bounds(partition)[:2]
    while offset < tail:
        for batch in batches(log.read(partition, offset, 100_000).tobytes()):
            for event in events(batch):
                yield event.offset, event.value[:14].decode(), zlib.crc32(event.value)
            offset = read_header(batch).last_offset + 1

def append(name, size, *numbers):
    value = name.encode().ljust(size, b".")
    batch = build([Event(value)], now_ms=0)
    appended = log.append([(partitions[each], bytearray(batch)) for each in numbers])
    rows = zip(numbers, appended.offsets)
    return appended.durable, [(str(n), offset, name, zlib.crc32(value)) for n, offset in rows]

for partition in partitions:
    log.ensure(partition, "orders", settings)
say({str(each.number): list(stored(each)) for each in partitions})
serial = 0
while True:
    promised = []
    for number in (0, 1, 2):
        serial += 1
        size = 3000 if serial % 17 == 0 else 100
        promised.append(append(f"one {life:03}.{serial:06}", size, number))
    serial += 1
    promised.append(append(f"two {life:03}.{serial:06}", 200, 2, 3))
    for durable, rows in promised:
        durable.wait()
        say(rows)
"""


class Disk:
    """A file system in a file, whose power can be cut."""

    def __init__(self, image: Path, mounted: Path) -> None:
        self._image = image
        self.path = mounted
        self._on = False

    def switch_on(self) -> None:
        """Mount the file system, which replays its journal."""
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._on = True

    def cut(self) -> None:
        """Let nothing more reach the disk, and forget what has not."""
        root = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(root, SHUTDOWN, WITHOUT_FLUSH)
        finally:
            os.close(root)

    def switch_off(self) -> None:
        """Unmount the file system, which also frees its loop device."""
        if not self._on:
            return
        for _ in range(100):
            done = subprocess.run(["umount", str(self.path)], check=False, capture_output=True)
            if done.returncode == 0:
                break
        else:
            _run("umount", "--lazy", str(self.path))
        self._on = False


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("POWER CUTS NOT TESTED: only root may mount a file system")
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    mkfs = shutil.which("mkfs.ext4", path=path)
    if mkfs is None:
        pytest.skip("POWER CUTS NOT TESTED: there is no mkfs.ext4 (Debian: e2fsprogs)")
    memory = Path("/dev/shm")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    with tempfile.NamedTemporaryFile(dir=memory if memory.is_dir() else tmp_path) as image:
        image.truncate(64 * 1024 * 1024)
        _run(mkfs, "-q", "-F", image.name)
        made = Disk(Path(image.name), mounted)
        try:
            made.switch_on()
        except OSError as error:
            pytest.skip(f"POWER CUTS NOT TESTED: mounting was refused ({error})")
        made.switch_off()
        try:
            yield made
        finally:
            made.switch_off()


def live(disk: Disk, durability: str, life: int, acks: int) -> tuple[Found, Found]:
    """Run the log until so many acknowledgements, cut the power; return found and acknowledged."""
    complaints = disk.path.parent / "complaints"
    command = [sys.executable, "-c", WRITER, str(disk.path / "log"), durability, str(life)]
    disk.switch_on()
    try:
        with (
            complaints.open("w") as stderr,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as writer,
        ):
            try:
                assert writer.stdout is not None
                said = _listen(writer.stdout.fileno(), 1 + acks)
                disk.cut()
            finally:
                writer.kill()
    finally:
        disk.switch_off()
    assert len(said) > acks, f"the log of life {life} did not work: {complaints.read_text()}"
    found: Found = {name: [tuple(row) for row in rows] for name, rows in said[0].items()}
    acked: Found = {name: [] for name in found}
    for rows in said[1:]:
        for name, *row in rows:
            acked[name].append(tuple(row))
    return found, acked


def _listen(fd: int, lines: int) -> list:  # type: ignore[type-arg]
    """Read at least so many lines, and whatever else has been said by then."""
    said = b""
    while said.count(b"\n") < lines or select.select([fd], [], [], 0)[0]:
        part = os.read(fd, 1_000_000)
        said += part
        if not part or said.count(b"\n") >= 2 * lines + 100:
            break
    return [json.loads(line) for line in said.split(b"\n")[:-1]]


def missing(found: Found, promised: Found) -> list[tuple[str, int, str, int]]:
    """Return what was promised and is not where it should be, unchanged."""
    return [
        (name, *row)
        for name, rows in promised.items()
        for row in sorted(set(rows) - set(found.get(name, [])))
    ]


@pytest.mark.parametrize("seed", seeds(1, 1, 100))
def test_what_was_acknowledged_with_fsync_survives_every_power_cut(disk: Disk, seed: int) -> None:
    dice = random.Random(seed)
    until = time.monotonic() + SECONDS
    promised: Found = {}
    cuts = counted = 0

    while cuts < CUTS and time.monotonic() < until:
        found, acked = live(disk, "fsync", cuts, acks=dice.randrange(1, 120))

        _check(found, promised, cuts)
        # Whoever read it after the last cut must find it after the next.
        promised = {name: rows + acked[name] for name, rows in found.items()}
        counted += sum(map(len, acked.values()))
        cuts += 1
    found, _ = live(disk, "fsync", cuts, acks=0)

    _check(found, promised, cuts)
    assert cuts >= 3
    assert counted >= 100


def _check(found: Found, promised: Found, cuts: int) -> None:
    lost = missing(found, promised)
    assert not lost, f"after cut {cuts} lost {len(lost)} events, the first is {lost[0]}"
    for name, rows in found.items():
        offsets = [offset for offset, _, _ in rows]
        assert offsets == list(range(len(rows))), f"after cut {cuts} partition {name} has gaps"
    one, other = ([row[1:] for row in found[each] if row[1][:3] == "two"] for each in PAIRED)
    assert one == other, f"after cut {cuts} a pair is there in part"


def test_without_fsync_power_cuts_do_lose_events_so_the_test_above_could_fail(disk: Disk) -> None:
    lost: list[tuple[str, int, str, int]] = []
    promised: Found = {}

    for life in range(CONTROL_CUTS + 1):
        found, acked = live(disk, "disk", life, acks=50)
        lost = missing(found, promised)
        if lost:
            break
        promised = acked

    assert lost
