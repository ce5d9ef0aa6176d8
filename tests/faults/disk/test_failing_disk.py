"""A disk that fails: nothing is acknowledged after it, and nothing acknowledged is lost."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.exhausted_descriptors import all_taken
from tests.faults.disk.simulated_disk import SimFiles
from tests.log.log_directory import ORDERS, PAYMENTS, Clock, stored, write

from mainstem.core.errors import DamagedLog, MainstemError, StorageFailed
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.files.files import Buffer, OpenFile, RealFiles
from mainstem.log.options import Options
from mainstem.log.port import PartitionId
from mainstem.log.segments.file_cache import FileCache

FSYNC = TopicSettings()
DISK = TopicSettings(durability=Durability.DISK)
THREADS = pytest.mark.parametrize("background", [False, True], ids=["stepwise", "threads"])
ROOT = Path(__file__).parents[3]
_MANY = 200

Acknowledged = list[tuple[int, bytes | None]]


class Fault:
    """What fails: the deed, where, from which time on (or only then), and how."""

    def __init__(self) -> None:
        self.deed = self.where = ""
        self.left = 0
        self.number = errno.EIO
        self.once = True

    def set(
        self, deed: str, where: str, after: int = 1, number: int = errno.EIO, *, once: bool = True
    ) -> None:
        """Let the deed fail at paths that hold ``where``, the first time after so many."""
        self.deed, self.where, self.left, self.number, self.once = deed, where, after, number, once

    def check(self, deed: str, path: str) -> None:
        """Raise if it is time."""
        if deed == self.deed and self.where in path:
            self.left -= 1
            if self.left == 0 or (self.left < 0 and not self.once):
                raise OSError(self.number, os.strerror(self.number), path)


class FailingFile:
    """A real file, but for its faults."""

    def __init__(self, file: OpenFile, path: str, fault: Fault) -> None:
        self._file, self._path, self._fault = file, path, fault

    def fileno(self) -> int:
        return self._file.fileno()

    def pread(self, length: int, position: int) -> bytes:
        self._fault.check("read", self._path)
        return self._file.pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._fault.check("write", self._path)
        self._file.pwrite(data, position)

    def allocate(self, position: int, length: int) -> None:
        self._fault.check("write", self._path)
        self._file.allocate(position, length)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._fault.check("write", self._path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._fault.check("sync", self._path)
        self._file.sync()


class FailingFiles(RealFiles):
    """A real directory, but for its faults."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        super().__init__(root)
        self.fault = Fault()

    def open(self, path: str, *, create: bool = False) -> OpenFile:  # type: ignore[override]
        self.fault.check("open", path)
        return FailingFile(super().open(path, create=create), path, self.fault)

    def sync_dir(self, path: str) -> None:
        self.fault.check("sync_dir", path)
        super().sync_dir(path)

    def make_dir(self, path: str) -> None:
        self.fault.check("open", path)
        super().make_dir(path)


def opened(files: RealFiles, *, background: bool = False, **options: int) -> DiskLog:
    chosen = Options(background=background, **options)
    return DiskLog.open(files=files, now_ms=Clock(), options=chosen)


def reopened(path: Path) -> DiskLog:
    return opened(RealFiles(path))


def write_until_failed(log: DiskLog, partition: PartitionId, kept: Acknowledged) -> StorageFailed:
    """Append until it fails, noting what was acknowledged."""
    for number in range(_MANY):
        try:
            kept.append(write(log, partition, b"value %d" % number))
        except StorageFailed as error:
            return error
    raise AssertionError("nothing failed")


SYNCS = pytest.mark.parametrize(
    ("deed", "where", "options", "settings"),
    [
        ("sync", "wal/", {}, FSYNC),
        ("sync", ".seg", {"large_batch_bytes": 1}, FSYNC),
        ("sync_dir", "partitions", {"large_batch_bytes": 1}, FSYNC.altered(segment_bytes=1024)),
    ],
    ids=["write-ahead log", "segment", "directory"],
)


@SYNCS
@THREADS
@pytest.mark.parametrize("after", [1, 2, 5])
def test_after_a_failed_sync_nothing_is_acknowledged_ever(
    tmp_path: Path,
    deed: str,
    where: str,
    options: dict[str, int],
    settings: TopicSettings,
    background: bool,
    after: int,
) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files, background=background, **options)
    log.ensure(ORDERS, "orders", settings)
    log.ensure(PAYMENTS, "payments", DISK)
    kept = [write(log, ORDERS, b"before")]
    files.fault.set(deed, where, after)

    failed = write_until_failed(log, ORDERS, kept)

    assert "nothing more is acknowledged" in str(failed)
    assert "reopen the log" in str(failed)
    assert not failed.retriable
    for partition in (ORDERS, PAYMENTS, ORDERS):
        with pytest.raises(StorageFailed):
            write(log, partition, b"later")
    assert log.bounds(ORDERS).tail == len(kept)
    assert stored(log, ORDERS) == kept
    log.close()
    again = reopened(tmp_path)
    found = stored(again, ORDERS)
    assert found[: len(kept)] == kept
    # The one that was neither acknowledged nor refused may be there, but no later one.
    assert len(found) <= len(kept) + 1
    assert again.bounds(PAYMENTS).end == 0


def test_everything_that_waits_for_a_failed_sync_is_told(tmp_path: Path) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files)
    log.ensure(ORDERS, "orders", FSYNC)
    write(log, ORDERS, b"before")
    files.fault.set("sync", "wal/")
    told: list[MainstemError | None] = []

    pending = [
        log.append([(ORDERS, build([Event(b"%d" % number)], now_ms=0))]).durable
        for number in range(5)
    ]
    for each in pending:
        each.then(told.append)
    log.committer.commit()

    assert [type(each) for each in told] == [StorageFailed] * 5
    for each in pending:
        assert each.done
        with pytest.raises(StorageFailed):
            each.wait(10)


@pytest.mark.parametrize(("deed", "where"), [("sync", ".seg"), ("sync_dir", "partitions")])
def test_a_checkpoint_whose_sync_fails_stops_the_log_and_loses_nothing(
    tmp_path: Path, deed: str, where: str
) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files, checkpoint_batches=10)
    log.ensure(ORDERS, "orders", FSYNC)
    kept = [write(log, ORDERS, b"%d" % number) for number in range(12)]
    files.fault.set(deed, where)

    with pytest.raises(StorageFailed):
        log.upkeep.tick()

    with pytest.raises(StorageFailed):
        write(log, ORDERS, b"later")
    assert stored(log, ORDERS) == kept
    log.close()
    assert stored(reopened(tmp_path), ORDERS) == kept


@pytest.mark.parametrize("after", [1, 2])
def test_a_manifest_that_cannot_be_written_costs_nothing(tmp_path: Path, after: int) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files, checkpoint_batches=10)
    log.ensure(ORDERS, "orders", FSYNC)
    kept = [write(log, ORDERS, b"%d" % number) for number in range(12)]
    files.fault.set("sync", "manifest", after)

    with pytest.raises(StorageFailed):
        log.upkeep.tick()

    assert stored(log, ORDERS) == kept
    del log
    files.unlock()
    assert stored(reopened(tmp_path), ORDERS) == kept


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files)
    for partition, name in ((ORDERS, "orders"), (PAYMENTS, "payments")):
        log.ensure(partition, name, FSYNC)
        write(log, partition, b"event")
    log.close()
    log = opened(files)
    files.fault.set("read", f"{ORDERS.topic_id}-0/", once=False)

    with pytest.raises(DamagedLog, match=r"'orders' cannot be read .*check the disk"):
        log.read(ORDERS, 0, 1000)

    assert stored(log, PAYMENTS) == [(0, b"event")]
    assert write(log, PAYMENTS, b"another") == (1, b"another")
    files.fault.set("", "")
    assert stored(log, ORDERS) == [(0, b"event")]


def test_a_read_that_fails_after_it_was_found_is_named_too(tmp_path: Path) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files)
    log.ensure(ORDERS, "orders", FSYNC)
    write(log, ORDERS, b"event")
    found = log.read(ORDERS, 0, 1000)
    files.fault.set("read", ".seg", once=False)

    with pytest.raises(DamagedLog, match=r"cannot be read at byte 0 .*check the disk"):
        found.tobytes()


@pytest.mark.parametrize("deed", ["write", "sync", "sync_dir"])
def test_a_disk_that_fails_while_the_log_is_opened_is_named(tmp_path: Path, deed: str) -> None:
    files = FailingFiles(tmp_path)
    files.fault.set(deed, "", once=False)

    with pytest.raises(StorageFailed, match="the disk failed while opening the log"):
        opened(files)

    files.fault.set("", "")
    opened(files).close()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("deed", ["write", "open"])
def test_a_directory_that_may_not_be_written_any_more_is_read_on(
    tmp_path: Path, number: int, deed: str
) -> None:
    files = FailingFiles(tmp_path)
    log = opened(files)
    log.ensure(ORDERS, "orders", DISK.altered(segment_bytes=1024))
    kept = [write(log, ORDERS, b"x" * 1000)]
    files.fault.set(deed, "", 1, number, once=False)

    for _ in range(2):
        with pytest.raises(StorageFailed, match="appending to partition 0 of topic 'orders'"):
            write(log, ORDERS, b"y" * 1000)

    assert log.bounds(ORDERS).end == 1
    assert stored(log, ORDERS) == kept
    with pytest.raises(StorageFailed):
        log.close()
    files.fault.set("", "")
    assert stored(reopened(tmp_path), ORDERS) == kept


def test_a_directory_deleted_while_in_use_stops_the_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log = opened(FailingFiles(data), checkpoint_batches=1)
    log.ensure(ORDERS, "orders", FSYNC.altered(segment_bytes=1024))
    kept = [write(log, ORDERS, b"x" * 1000)]

    shutil.rmtree(data)

    with pytest.raises(StorageFailed, match="directory was deleted"):
        log.upkeep.tick()
    assert stored(log, ORDERS) == kept
    log.close()


def test_nothing_is_acknowledged_in_a_directory_that_was_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log = opened(FailingFiles(data))
    log.ensure(ORDERS, "orders", FSYNC)
    write(log, ORDERS, b"before")
    shutil.rmtree(data)

    with pytest.raises(StorageFailed):
        write(log, ORDERS, b"after")


def test_a_lack_of_descriptors_does_not_stop_the_log_for_good(tmp_path: Path) -> None:
    log = opened(RealFiles(tmp_path), large_batch_bytes=1)
    log.ensure(ORDERS, "orders", FSYNC)
    durable = log.append([(ORDERS, build([Event(b"first")], now_ms=0))]).durable

    with all_taken():
        log.committer.commit()

    durable.wait()
    assert stored(log, ORDERS) == [(0, b"first")]


_WRITER = """
import sys
from pathlib import Path
from mainstem.core.errors import StorageFailed
from mainstem.log.files.files import RealFiles
from tests.faults.disk.test_failing_disk import FSYNC, ORDERS, opened, write

log = opened(RealFiles(Path(sys.argv[1])), background=sys.argv[2] == "threads")
log.ensure(ORDERS, "orders", FSYNC)
for number in range(60):
    try:
        write(log, ORDERS, b"%d" % number)
        print("acknowledged", number, flush=True)
    except StorageFailed:
        print("failed", number, flush=True)
log.close()
"""


@pytest.mark.parametrize("threads", ["threads", "stepwise"])
@pytest.mark.parametrize("when", [8, 30])
def test_the_kernel_says_that_a_sync_failed(tmp_path: Path, threads: str, when: int) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("NOT TESTED: a sync that the kernel fails; there is no strace here")
    if subprocess.run([strace, "-f", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("NOT TESTED: a sync that the kernel fails; ptrace is forbidden here")
    inject = f"inject=fdatasync:error=EIO:when={when}"
    traced = [strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject]
    command = [*traced, sys.executable, "-c", _WRITER, str(tmp_path), threads]

    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)

    told = [line.split() for line in ended.stdout.splitlines()]
    words = [word for word, _ in told]
    acknowledged = words.count("acknowledged")
    assert 0 < acknowledged < 60
    assert words == ["acknowledged"] * acknowledged + ["failed"] * (60 - acknowledged)
    found = [value for _, value in stored(reopened(tmp_path), ORDERS)]
    assert found[:acknowledged] == [b"%d" % number for number in range(acknowledged)]
    assert len(found) <= acknowledged + 1


_CROWDED = """
import resource, sys
from pathlib import Path
from mainstem.log.files.files import RealFiles
from tests.faults.disk.test_failing_disk import DISK, FSYNC, PartitionId, opened, stored, write

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, most))
files = RealFiles(Path(sys.argv[1]))
log = opened(files, background=sys.argv[2] == "threads", large_batch_bytes=200)
partitions = [PartitionId(f"{number:032x}", 0) for number in range(100)]
for number, partition in enumerate(partitions):
    log.ensure(partition, f"topic {number}", DISK if number % 3 else FSYNC)
for size in (1, 300, 2):
    for partition in partitions:
        write(log, partition, b"x" * size)
    log.upkeep.checkpoint()
for partition in partitions:
    assert stored(log, partition) == [(0, b"x"), (1, b"x" * 300), (2, b"xx")]
log.close()
log = opened(RealFiles(Path(sys.argv[1])))
for partition in partitions:
    assert stored(log, partition) == [(0, b"x"), (1, b"x" * 300), (2, b"xx")]
log.close()
"""


@pytest.mark.parametrize("threads", ["threads", "stepwise"])
def test_many_topics_make_do_with_few_open_files(tmp_path: Path, threads: str) -> None:
    command = [sys.executable, "-c", _CROWDED, str(tmp_path), threads]

    ended = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)

    assert ended.returncode == 0, ended.stderr


def test_lacks_of_descriptors_that_are_over_leave_half_of_the_files_open() -> None:
    files = SimFiles()
    file_cache = FileCache(files, 64)
    paths = [f"{number}" for number in range(64)]

    def lack_once(kind: str, path: str) -> None:
        if kind == "open":
            files.before = lambda _kind, _path: None
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def open_all() -> int:
        for path in paths:
            file_cache.get(path, create=True)
        return len(file_cache.opened)

    open_all()
    for number in range(10):
        files.before = lack_once
        file_cache.get(f"another {number}", create=True)
    fewest = open_all()
    for _ in range(10):
        open_all()

    assert 16 <= fewest < 32
    assert len(file_cache.opened) == 32


def test_a_lack_of_descriptors_is_met_by_letting_go_of_few_too() -> None:
    files = SimFiles()
    file_cache = FileCache(files, 64)
    for path in ("a", "b", "c"):
        file_cache.get(path, create=True)

    def taken(kind: str, path: str) -> None:
        if kind == "open" and len(file_cache.opened) > 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    files.before = taken
    file_cache.get("d", create=True)

    assert list(file_cache.opened) == ["c", "d"]
