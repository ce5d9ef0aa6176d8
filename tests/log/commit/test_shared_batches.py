"""A batch that is appended to several partitions is in the write-ahead log once."""

import errno
import itertools
import os
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from time import perf_counter, process_time

import pytest
from tests.faults.disk.crash_states import crashes
from tests.faults.disk.disk_steps import opened
from tests.faults.disk.simulated_disk import SimFiles
from tests.laws.log_implementations import all_events, batch_of

from mainstem.core.errors import StorageFull
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.appender import SHARED_BYTES
from mainstem.log.commit.shared_batches import sources
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import PartitionId

BODY = b"x" * 10_000


def places(count: int) -> list[PartitionId]:
    return [PartitionId(f"{number:032x}", 0) for number in range(count)]


def publish(log: DiskLog, *partitions: PartitionId, value: bytes = BODY) -> int:
    """Append one batch to each partition; return how many bytes the write-ahead log grew."""
    before = log.committer.wal.used
    log.append([(each, batch_of(value)) for each in partitions])
    return log.committer.wal.used - before


@pytest.fixture
def log(files: SimFiles) -> DiskLog:
    log = opened(files)
    for number, each in enumerate(places(100)):
        durability = Durability.DISK if number % 3 == 2 else Durability.FSYNC
        log.ensure(each, "queue", TopicSettings(durability=durability))
    # All at other offsets.
    for number, each in enumerate(places(100)):
        for _ in range(number % 4):
            log.append([(each, batch_of(b"before"))])
    log.committer.commit()
    return log


@pytest.mark.parametrize("count", [2, 10, 100])
def test_the_write_ahead_log_has_the_batch_once_however_many_partitions_get_it(
    log: DiskLog, count: int
) -> None:
    written = publish(log, *places(count))

    assert len(BODY) < written < len(BODY) + 64 * (count + 3)


def test_space_is_reserved_for_it_once(log: DiskLog) -> None:
    was = log.committer.wal.allocated

    publish(log, *places(100))

    assert log.committer.wal.allocated - was < 10 * len(BODY)


def test_each_partition_has_its_copy_after_kill_9(log: DiskLog, files: SimFiles) -> None:
    offsets = [log.bounds(each).end for each in places(100)]
    publish(log, *places(100))
    log.committer.flush()

    again = opened(SimFiles(files.image()))

    found = [all_events(again, each)[-1] for each in places(100)]
    assert found == [(offset, BODY) for offset in offsets]
    assert not again.recovery.findings


def test_different_batches_and_several_for_one_partition_are_told_apart(
    log: DiskLog, files: SimFiles
) -> None:
    first, second, third = places(3)
    values = [(first, b"one"), (second, b"two"), (first, b"two"), (third, b"one"), (first, b"one")]
    starts = {each: log.bounds(each).end for each, _ in values}
    log.append([(each, batch_of(value)) for each, value in values])
    log.committer.flush()

    again = opened(SimFiles(files.image()))

    for partition, start in starts.items():
        wanted = [value for each, value in values if each == partition]
        found = [value for offset, value in all_events(again, partition) if offset >= start]
        assert found == wanted


def test_batches_are_copies_whatever_their_offset_and_epoch() -> None:
    moved = bytearray(batch_of(b"one"))
    moved[:8] = (77).to_bytes(8, "big")
    moved[12:16] = (5).to_bytes(4, "big")

    assert sources([batch_of(b"one"), batch_of(b"two"), moved]) == [0, 1, 0]


def test_a_publish_to_a_thousand_queues(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    log = DiskLog.open(tmp_path, now_ms=lambda: 0, options=Options(background=False))
    queues = places(1_000)
    for each in queues:
        log.ensure(each, "queue", TopicSettings(segment_bytes=16 * 1024 * 1024))
    publish(log, *queues)
    log.committer.commit()
    began, cpu = perf_counter(), process_time()

    written = publish(log, *queues, value=b"x" * 1_000)
    log.committer.commit()

    record_property("milliseconds", round((perf_counter() - began) * 1_000, 1))
    record_property("milliseconds_of_cpu", round((process_time() - cpu) * 1_000, 1))
    record_property("bytes_in_the_write_ahead_log", written)
    assert written < 1_000 + 64 * 1_003
    log.close()


def test_batches_with_the_same_checksum_are_copies_only_if_their_bytes_are_the_same() -> None:
    batch = bytearray(batch_of(BODY))
    placed, altered = bytearray(batch), bytearray(batch)
    placed[0:8] = (77).to_bytes(8, "big")
    altered[-1] ^= 1

    assert sources([batch, placed, altered]) == [0, 0, 2]


# Large batches


LARGE = bytes(range(256)) * (SHARED_BYTES // 256 + 1)


def publish_shared(log: DiskLog, count: int, value: bytes = LARGE) -> None:
    """Append the same batch to many partitions, as a publish for many queues does."""
    batch = batch_of(value)
    log.append([(each, batch) for each in places(count)])


def ends_with(log: DiskLog, count: int, value: bytes = LARGE) -> list[bool]:
    return [[each for _, each in all_events(log, at)][-1:] == [value] for at in places(count)]


def test_one_batch_for_many_partitions_has_the_offsets_of_each(
    log: DiskLog, files: SimFiles
) -> None:
    offsets = [log.bounds(each).end for each in places(100)]
    publish_shared(log, 100)
    log.committer.commit()

    found = [all_events(log, each)[-1] for each in places(100)]
    again = opened(SimFiles(files.image()))

    assert found == [(offset, LARGE) for offset in offsets]
    assert [all_events(again, each)[-1] for each in places(100)] == found
    assert not again.recovery.findings


def test_a_large_batch_is_in_memory_once(tmp_path: Path) -> None:
    big = b"x" * 4_000_000
    with closing(
        DiskLog.open(tmp_path / "log", now_ms=lambda: 0, options=Options(background=False))
    ) as log:
        for each in places(50):
            log.ensure(each, "queue", TopicSettings())
        tracemalloc.start()
        try:
            publish_shared(log, 50, big)
            log.committer.commit()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        # The batch, its copy, and the entry of the write-ahead log with what is written of it.
        assert peak < 8 * len(big)
        assert log.bounds(places(50)[-1]).size_bytes > len(big)


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.DISK])
def test_a_crash_at_any_step_leaves_it_in_all_partitions_or_in_none(
    files: SimFiles, durability: Durability
) -> None:
    log = opened(files)
    for each in places(5):
        log.ensure(each, "queue", TopicSettings(durability=durability))
    log.append([(places(1)[0], batch_of(b"before"))])
    log.committer.commit()
    base, first = files.image(), len(files.trace)
    publish_shared(log, 5)
    log.committer.commit()

    seen: Counter[tuple[bool, bool]] = Counter()
    for crash in crashes(base, files.trace[first:], Random(5), mixtures=3):
        if durability is Durability.DISK and not crash.kill:
            # A power cut may lose events of such topics, each by itself.
            continue
        there = ends_with(opened(SimFiles(crash.image)), 5)
        assert len(set(there)) == 1, (crash.at, crash.what)
        seen[crash.kill, there[0]] += 1

    # It came before the append, and after it.
    assert seen[True, False]
    assert seen[True, True]
    assert seen[False, False] or durability is Durability.DISK


@pytest.mark.parametrize("step", range(8))
def test_a_full_disk_leaves_nothing_of_it_and_gets_no_fuller(files: SimFiles, step: int) -> None:
    log = opened(files)
    for each in places(5):
        log.ensure(each, "queue", TopicSettings())
    log.append([(places(1)[0], batch_of(b"before"))])
    log.committer.commit()
    used, steps = sum(map(len, files.data.values())), itertools.count()

    def fail(kind: str, path: str) -> None:
        if kind == "allocate" and next(steps) >= step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.before = fail
    try:
        publish_shared(log, 5)
    except StorageFull:
        is_there = False
        # Only the write-ahead log may keep what it has reserved.
        in_segments = sum(map(len, files.data.values())) - used - log.committer.wal.allocated
        assert in_segments < len(LARGE)
    else:
        is_there = True
    files.before = lambda kind, path: None
    log.append([(places(1)[0], batch_of(b"after"))])
    log.committer.commit()

    assert is_there == (step > 5)
    for found in (log, opened(SimFiles(files.image()))):
        assert ends_with(found, 5)[1:] == [is_there] * 4
        values = [value for _, value in all_events(found, places(1)[0])]
        assert values == [b"before", *([LARGE] if is_there else []), b"after"]
