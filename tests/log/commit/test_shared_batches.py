"""A batch that is appended to several partitions is in the write-ahead log once."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import pytest
from tests.faults.disk_steps import opened
from tests.faults.simulated_disk import SimFiles
from tests.laws.log_implementations import all_events, batch_of

from mainstem.core.topic_settings import Durability, TopicSettings
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
