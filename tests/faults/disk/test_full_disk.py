"""A really full disk: appends are refused, acknowledged events stay, and it recovers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, PAYMENTS, Clock, append, stored, write
from tests.tmpfs import mounted_tmpfs

import mainstem
from mainstem.core.errors import StorageFull
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import PartitionId

FSYNC = TopicSettings(segment_bytes=256 * 1024)
DISK = FSYNC.altered(durability=Durability.DISK)
POLICIES = pytest.mark.parametrize("settings", [FSYNC, DISK], ids=["fsync", "disk"])
THREADS = pytest.mark.parametrize("background", [False, True], ids=["stepwise", "threads"])
ROOT = Path(__file__).parents[3]
_MANY = 20_000
"""More appends than any disk of these tests has space for."""

Acknowledged = list[tuple[int, bytes | None]]


class SmallDisk:
    """A file system of a few megabytes, with a file that takes all the space it is let."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def data(self) -> Path:
        """Where the log is."""
        return self.path / "data"

    def fill(self) -> None:
        """Take every byte that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted_tmpfs(tmp_path / "disk", "3m", "a disk that is really full") as path:
        yield SmallDisk(path)


def opened(path: Path, *, background: bool = False, **options: int) -> DiskLog:
    chosen = {"wal_step_bytes": 4096, "upkeep_ms": 5} | options
    return DiskLog.open(path, now_ms=Clock(), options=Options(background=background, **chosen))


def with_topic(disk: SmallDisk, settings: TopicSettings, *, background: bool = False) -> DiskLog:
    """Open the log, with a topic ``orders``."""
    log = opened(disk.data, background=background)
    log.ensure(ORDERS, "orders", settings)
    return log


@pytest.fixture
def log(disk: SmallDisk, settings: TopicSettings, background: bool) -> DiskLog:
    """The log with a topic ``orders``, for tests of ``POLICIES`` and ``THREADS``."""
    return with_topic(disk, settings, background=background)


def has_all_and_takes(value: bytes, log: DiskLog, disk: SmallDisk, kept: Acknowledged) -> None:
    """Write one event more; all that was acknowledged is there, also after reopening."""
    kept.append(write(log, ORDERS, value))
    assert stored(log, ORDERS) == kept
    log.close()
    assert stored(opened(disk.data), ORDERS) == kept


def write_until_full(log: DiskLog, partition: PartitionId, kept: Acknowledged) -> StorageFull:
    """Append until it is refused, noting what was acknowledged."""
    for number in range(_MANY):
        try:
            kept.append(write(log, partition, b"%06d " % number * 150))
        except StorageFull as error:
            return error
    raise AssertionError("the disk was never full")


@POLICIES
@THREADS
def test_a_full_disk_refuses_and_says_what_to_do_and_heals_at_once(
    disk: SmallDisk, log: DiskLog
) -> None:
    kept = [write(log, ORDERS, b"before")]
    disk.fill()

    refused = write_until_full(log, ORDERS, kept)

    assert refused.retriable is True
    assert "no space left while appending to partition 0 of topic 'orders'" in str(refused)
    assert "free some space or shorten retention, then try again" in str(refused)
    assert log.bounds(ORDERS).end == log.bounds(ORDERS).tail == len(kept)
    assert stored(log, ORDERS) == kept

    disk.free()
    has_all_and_takes(b"after", log, disk, kept)


@POLICIES
def test_what_was_refused_does_not_come_back_after_reopening(
    disk: SmallDisk, settings: TopicSettings
) -> None:
    log = with_topic(disk, settings)
    kept: Acknowledged = []
    disk.fill()
    write_until_full(log, ORDERS, kept)
    with pytest.raises(StorageFull):
        write(log, ORDERS, b"refused" * 20_000)

    disk.free()
    log.close()
    again = opened(disk.data)

    assert stored(again, ORDERS) == kept
    assert again.recovery.findings == []
    again.close()


def test_several_batches_are_refused_together_or_not_at_all(disk: SmallDisk) -> None:
    log = opened(disk.data)
    for partition, name in ((ORDERS, "orders"), (PAYMENTS, "payments")):
        log.ensure(partition, name, FSYNC)
    kept = [write(log, ORDERS, b"before")]
    disk.fill()
    both = [
        (ORDERS, build([Event(b"small")], now_ms=0)),
        (PAYMENTS, build([Event(b"large" * 10_000)], now_ms=0)),
    ]

    with pytest.raises(StorageFull, match="appending 2 batches together"):
        log.append(both)

    log.committer.commit()
    assert stored(log, ORDERS) == kept
    assert log.bounds(PAYMENTS).end == 0

    disk.free()
    log.append(both)
    log.committer.commit()
    assert stored(log, ORDERS) == [*kept, (1, b"small")]
    assert stored(log, PAYMENTS) == [(0, b"large" * 10_000)]


@THREADS
@POLICIES
def test_filling_and_freeing_many_times_loses_nothing(
    disk: SmallDisk, settings: TopicSettings, background: bool
) -> None:
    kept: Acknowledged = []
    log = opened(disk.data, background=background, checkpoint_batches=20)
    log.ensure(ORDERS, "orders", settings.altered(segment_bytes=16 * 1024))
    for _ in range(6):
        kept += [write(log, ORDERS, b"between" * 50) for _ in range(30)]
        disk.fill()
        write_until_full(log, ORDERS, kept)
        assert stored(log, ORDERS) == kept
        disk.free()
    has_all_and_takes(b"last", log, disk, kept)


def test_trimming_makes_space_for_the_next_append(disk: SmallDisk) -> None:
    log = opened(disk.data)
    log.ensure(ORDERS, "orders", FSYNC.altered(segment_bytes=64 * 1024))
    kept: Acknowledged = []
    write_until_full(log, ORDERS, kept)

    log.cut(ORDERS, start=len(kept) - 10)
    log.upkeep.tick()
    kept.append(write(log, ORDERS, b"after the trim" * 100))

    assert stored(log, ORDERS) == kept[-11:]


def test_retention_makes_space_for_the_next_append(disk: SmallDisk) -> None:
    log = opened(disk.data)
    small = FSYNC.altered(segment_bytes=64 * 1024)
    log.ensure(ORDERS, "orders", small.altered(retention_bytes=256 * 1024))
    kept: Acknowledged = []
    write_until_full(log, ORDERS, kept)

    log.upkeep.tick()
    kept.append(write(log, ORDERS, b"after retention" * 100))

    found = stored(log, ORDERS)
    assert found == kept[-len(found) :]
    assert len(found) < len(kept)


def test_topics_are_refused_on_a_full_disk_and_created_afterwards(disk: SmallDisk) -> None:
    log = opened(disk.data)
    disk.fill()

    created: list[PartitionId] = []

    def create_topics() -> None:
        for number in range(_MANY):
            partition = PartitionId(f"{number:032x}", 0)
            log.ensure(partition, f"topic-{number}", FSYNC)
            created.append(partition)

    with pytest.raises(StorageFull, match="noting a change of topics"):
        create_topics()

    refused = PartitionId(f"{len(created):032x}", 0)
    assert refused not in [each.id for each in log.disk_partitions()]
    disk.free()
    log.ensure(refused, "at last", FSYNC)
    assert write(log, refused, b"first") == (0, b"first")
    log.close()
    again = opened(disk.data)
    assert {each.id for each in again.disk_partitions()} == {*created, refused}


@POLICIES
def test_a_segment_that_cannot_be_begun_is_begun_later(
    disk: SmallDisk, settings: TopicSettings
) -> None:
    log = opened(disk.data)
    log.ensure(ORDERS, "orders", settings.altered(segment_bytes=4096))
    kept = [write(log, ORDERS, b"x" * 4000)]
    disk.fill()

    for _ in range(3):
        with pytest.raises(StorageFull):
            write(log, ORDERS, b"y" * 4000)
    assert stored(log, ORDERS) == kept

    disk.free()
    kept.append(write(log, ORDERS, b"z" * 4000))
    log.close()
    assert stored(opened(disk.data), ORDERS) == kept


@pytest.mark.parametrize("earlier", [0, 1], ids=["the first", "a later one"])
def test_a_checkpoint_that_found_no_space_is_retried_and_heals(
    disk: SmallDisk, earlier: int
) -> None:
    log = opened(disk.data, checkpoint_batches=20)
    partitions = [PartitionId(f"{number:032x}", 0) for number in range(60)]
    for number, partition in enumerate(partitions):
        log.ensure(partition, f"a topic whose name is rather long, number {number}", FSYNC)
        write(log, partition, b"event")
        if number < 30 * earlier:
            log.upkeep.tick()
    disk.fill()

    for _ in range(3):
        with pytest.raises(StorageFull) as refused:
            log.upkeep.tick()
        assert refused.value.retriable

    disk.free()
    log.upkeep.tick()
    assert not log.upkeep.due
    assert len(list((disk.data / "wal").iterdir())) <= 2
    assert all(stored(log, each) == [(0, b"event")] for each in partitions)
    log.close()
    again = opened(disk.data)
    assert again.recovery.clean
    assert all(stored(again, each) == [(0, b"event")] for each in partitions)


def test_compaction_that_found_no_space_is_retried_and_heals(disk: SmallDisk) -> None:
    log = opened(disk.data)
    log.ensure(ORDERS, "orders", FSYNC.altered(segment_bytes=16 * 1024, compact=True))
    for number in range(60):
        append(log, ORDERS, Event(b"%d" % number * 500, key=b"key %d" % (number % 10)))
    before = stored(log, ORDERS)
    disk.fill()

    for _ in range(3):
        with pytest.raises(StorageFull):
            log.upkeep.tick()
    assert stored(log, ORDERS) == before

    disk.free()
    log.upkeep.tick()
    after = stored(log, ORDERS)
    assert len(after) < len(before)
    assert set(after) <= set(before)
    log.close()
    assert stored(opened(disk.data), ORDERS) == after


@POLICIES
@THREADS
def test_closing_while_full_loses_nothing(disk: SmallDisk, log: DiskLog) -> None:
    kept: Acknowledged = []
    disk.fill()
    write_until_full(log, ORDERS, kept)

    # Whoever closes is told that the next opening will have to recover.
    with pytest.raises(StorageFull, match="making the checkpoint that saves a recovery"):
        log.close()
    log.close()

    disk.free()
    assert stored(opened(disk.data), ORDERS) == kept


def test_a_log_that_was_closed_is_read_on_a_full_disk(disk: SmallDisk) -> None:
    log = with_topic(disk, FSYNC)
    kept = [write(log, ORDERS, b"before")]
    log.close()
    disk.fill()

    log = opened(disk.data)

    assert stored(log, ORDERS) == kept
    write_until_full(log, ORDERS, kept)
    assert stored(log, ORDERS) == kept
    disk.free()
    kept.append(write(log, ORDERS, b"after"))
    assert stored(log, ORDERS) == kept


def test_opening_that_finds_no_space_to_recover_works_once_there_is_some(disk: SmallDisk) -> None:
    log = with_topic(disk, FSYNC)
    kept: Acknowledged = []
    disk.fill()
    write_until_full(log, ORDERS, kept)
    with pytest.raises(StorageFull):
        log.close()

    for _ in range(3):
        with pytest.raises(StorageFull):
            opened(disk.data)

    disk.free()
    assert stored(opened(disk.data), ORDERS) == kept


def test_the_whole_stem_refuses_and_heals(disk: SmallDisk) -> None:
    sent = [b"event %d" % number * 30 for number in range(50)]
    with mainstem.open(disk.data) as stem:
        stem.topics.create("orders")
        for value in sent:
            stem.publish("orders", value)
        disk.fill()
        with pytest.raises(StorageFull) as refused:
            stem.publish_many("orders", [b"refused" * 100 for _ in range(_MANY)])
        assert refused.value.retriable
        disk.free()
        stem.publish("orders", b"after")

    with mainstem.open(disk.data) as stem:
        found = [each.value for each in stem.subscribe("orders", start="earliest").poll_many(_MANY)]
    assert [each for each in found if each and not each.startswith(b"refused")] == [*sent, b"after"]


_WRITER = """
import sys
from pathlib import Path
from mainstem.core.errors import StorageFull
from tests.faults.disk.test_full_disk import DISK, FSYNC, ORDERS, opened, write

log = opened(Path(sys.argv[1]), background=True, checkpoint_batches=50)
log.ensure(ORDERS, "orders", FSYNC if sys.argv[2] == "fsync" else DISK)
number = refusals = 0
while refusals < 20:
    try:
        offset, _ = write(log, ORDERS, b"%d " % number * 300)
        print(offset, number, flush=True)
    except StorageFull:
        refusals += 1
    number += 1
print("full", flush=True)
sys.stdin.read()
"""


@POLICIES
def test_a_process_killed_while_the_disk_is_full_loses_nothing(
    disk: SmallDisk, settings: TopicSettings
) -> None:
    command = [sys.executable, "-c", _WRITER, str(disk.data), settings.durability]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        kept: Acknowledged = []
        for line in writer.stdout:
            if line == "full\n":
                break
            offset, number = map(int, line.split())
            kept.append((offset, b"%d " % number * 300))
        writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    assert kept

    # A little more, as anybody would give it before starting again.
    subprocess.run(["mount", "-o", "remount,size=6m", str(disk.path)], check=True)
    log = opened(disk.data)

    assert stored(log, ORDERS) == kept
    write(log, ORDERS, b"after")
    log.close()
    assert stored(opened(disk.data), ORDERS) == [*kept, (len(kept), b"after")]


_LIMITED = """
import json, resource, sys
from pathlib import Path
from tests.faults.disk.test_full_disk import DISK, FSYNC, ORDERS
from tests.faults.disk.test_full_disk import opened, stored, write, write_until_full

log = opened(Path(sys.argv[1]))
log.ensure(ORDERS, "orders", FSYNC if sys.argv[2] == "fsync" else DISK)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
kept = []
refused = []
for limit in (50_000, 100_001, 150_002):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    refused.append(str(write_until_full(log, ORDERS, kept)))
    assert stored(log, ORDERS) == kept
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
kept.append(write(log, ORDERS, b"after"))
assert stored(log, ORDERS) == kept
print(json.dumps([refused, [value.decode() for _, value in kept]]), flush=True)
"""


@POLICIES
def test_files_that_may_not_grow_are_like_a_full_disk(
    tmp_path: Path, settings: TopicSettings
) -> None:
    command = [sys.executable, "-c", _LIMITED, str(tmp_path), settings.durability]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}

    ended = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )

    refused, kept = json.loads(ended.stdout)
    assert len(refused) == 3
    assert all("free some space" in each for each in refused)
    found = [value for _, value in stored(opened(tmp_path), ORDERS)]
    assert found == [value.encode() for value in kept]
