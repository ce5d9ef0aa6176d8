"""Regression tests: crashes that lost events, or restored deleted ones."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from tests.faults.disk.crash_states import crashes
from tests.faults.disk.disk_steps import (
    allow,
    append,
    batch,
    killed,
    opened,
    refuse,
    values,
    without_power,
)
from tests.faults.disk.random_workload import A0, A1, COMPACTED, DISK, FSYNC, RETAINED, B, C, D
from tests.faults.disk.simulated_disk import Image, SimFiles, blank

from mainstem.core.errors import DamagedLog, StorageFailed, StorageFull
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId

NOTHING = "nothing unsynced is kept"


@pytest.fixture
def files() -> SimFiles:
    return SimFiles()


@pytest.fixture
def log(files: SimFiles) -> DiskLog:
    opened_log = opened(files)
    for partition in (A0, A1):
        opened_log.ensure(partition, "orders", FSYNC)
    opened_log.ensure(B, "logs", DISK)
    return opened_log


def rolled_log(files: SimFiles) -> DiskLog:
    """Return a log with one event, whose next segment was made before a checkpoint."""
    now = 0
    log = opened(files, lambda: now)
    log.ensure(D, "retained", RETAINED)
    append(log, D, b"first")
    now = 5_000
    log.upkeep.tick()
    log.upkeep.checkpoint()
    return log


def test_events_in_a_segment_that_was_empty_at_the_checkpoint_survive(files: SimFiles) -> None:
    log = rolled_log(files)

    append(log, D, b"second")

    assert values(opened(killed(files)), D) == [b"first", b"second"]


def test_a_large_event_in_a_file_made_after_its_directory_was_synced_survives(
    files: SimFiles,
) -> None:
    log = rolled_log(files)

    append(log, D, b"x" * 700)

    found = opened(without_power(blank(), files.trace, NOTHING))
    assert values(found, D) == [b"first", b"x" * 700]


def test_a_log_whose_oldest_segments_are_gone_opens_after_a_kill(
    log: DiskLog, files: SimFiles
) -> None:
    append(log, A0, b"x" * 500)
    log.upkeep.checkpoint()
    append(log, A0, b"y" * 500)
    append(log, A0, b"z" * 500)
    log.cut(A0, start=2)
    log.committer.commit()
    log.upkeep.tick()

    assert values(opened(killed(files)), A0) == [b"z" * 500]


def test_events_from_before_a_topic_became_durable_do_not_take_later_ones_along(
    log: DiskLog, files: SimFiles
) -> None:
    log.append([(B, batch(b"under disk"))])
    log.ensure(B, "logs", FSYNC)

    append(log, B, b"under fsync")

    found = opened(without_power(blank(), files.trace, NOTHING))
    assert values(found, B) == [b"under disk", b"under fsync"]


def test_an_event_that_was_never_acknowledged_does_not_come_back_two_openings_later(
    log: DiskLog, files: SimFiles
) -> None:
    append(log, A0, b"a")
    log.upkeep.checkpoint()
    log.append([(A0, batch(b"b"))])
    log.append([(A0, batch(b"c"))])
    second_disk = killed(files)
    second = opened(second_disk)
    assert values(second, A0) == [b"a"]

    append(second, A0, b"d")

    assert values(opened(killed(second_disk)), A0) == [b"a", b"d"]


def test_events_after_a_refused_one_are_looked_for_although_its_note_was_given_up(
    log: DiskLog, files: SimFiles
) -> None:
    log.append([(B, batch(b"first"))])
    log.upkeep.checkpoint()
    refuse(files, "grow", ".seg")
    with pytest.raises(StorageFull):
        log.append([(B, batch(b"refused"))])
    allow(files)
    log.upkeep.checkpoint()

    log.append([(B, batch(b"second"))])

    assert values(opened(killed(files)), B) == [b"first", b"second"]


@pytest.mark.parametrize("partition", [A0, B], ids=["fsync", "disk"])
def test_what_was_refused_half_way_is_not_taken_for_damage(
    log: DiskLog, files: SimFiles, partition: PartitionId
) -> None:
    append(log, partition, b"first")
    refuse(files, "grow", ".seg")
    with pytest.raises(StorageFull):
        log.append([(partition, batch(b"refused"))])

    found = opened(killed(files))

    assert found.recovery.findings == []
    assert values(found, partition) == [b"first"]


def test_a_checkpoint_whose_sync_failed_is_not_tried_again(log: DiskLog, files: SimFiles) -> None:
    append(log, A0, b"first")
    refuse(files, "sync", ".seg", errno.EIO)
    with pytest.raises(StorageFailed):
        log.upkeep.checkpoint()
    allow(files)

    with pytest.raises(StorageFailed):
        log.append([(A0, batch(b"second"))])
    log.upkeep.checkpoint()

    found = opened(without_power(blank(), files.trace, NOTHING))
    assert values(found, A0) == [b"first"]


def test_checkpoints_go_on_after_one_failed_half_way_into_its_first_step(
    log: DiskLog, files: SimFiles
) -> None:
    log.upkeep.checkpoint()
    log.upkeep.checkpoint()
    refuse(files, "open", ".wal", errno.EMFILE)
    with pytest.raises(OSError, match="open files"):
        log.upkeep.checkpoint()
    allow(files)

    append(log, A0, b"first")
    log.upkeep.checkpoint()

    assert values(opened(killed(files)), A0) == [b"first"]


def test_compaction_for_whose_note_there_is_no_space_changes_nothing(
    log: DiskLog, files: SimFiles
) -> None:
    # A long name, so that the note is longer than an append that is just refused.
    log.ensure(C, "states" * 40, COMPACTED)
    for number in range(30):
        log.append([(C, batch(b"%03d" % number + b"." * 100, key=b"k%d" % (number % 3)))])
    log.committer.commit()
    written = values(log, C)
    refuse(files, "allocate", ".wal")
    with suppress(StorageFull):
        while True:
            log.append([(A0, batch(b"x" * 80))])
    with pytest.raises(StorageFull):
        log.upkeep.tick()
    allow(files)
    log.upkeep._deleted_files.remove()

    assert values(log, C) == written
    assert values(opened(killed(files)), C) == written


def test_what_was_cut_off_is_still_in_quarantine_after_a_power_cut_in_recovery(
    log: DiskLog, files: SimFiles
) -> None:
    append(log, A0, b"first")
    log.append([(B, batch(b"garbage follows"))])
    segment = next(path for path in files.names_of if "/" + "0" * 20 in path and "b" * 32 in path)
    file = files.open(segment)
    file.pwrite(b"what might be somebody's event", file.size())
    file.sync()
    base = killed(files)

    opened(base)

    for point in range(len(base.trace) + 1):
        for what in (NOTHING, "all bytes, no names", "all names, no bytes"):
            disk = without_power(files.image(), base.trace[:point], what)
            opened(disk)
            kept = b"".join(bytes(each) for each in disk.data.values())
            assert b"what might be somebody's event" in kept, (point, what)


def checkpoint_with(log: DiskLog, first: bytes, second: bytes) -> None:
    """Append an event to each of two partitions, and write a checkpoint."""
    append(log, A0, first)
    append(log, A1, second)
    log.upkeep.checkpoint()


def test_one_damaged_block_does_not_keep_the_log_from_opening(
    log: DiskLog, files: SimFiles
) -> None:
    checkpoint_with(log, b"damaged", b"whole")
    append(log, A0, b"after")
    node = next(node for path, node in files.names_of.items() if "a" * 32 + "-0/" in path)
    disk = killed(files)
    damaged = bytearray(disk.data[node])
    damaged[3] ^= 1
    disk.data[node] = damaged

    found = opened(disk)

    assert values(found, A1) == [b"whole"]
    with pytest.raises(DamagedLog):
        found.read(A0, 0, 1_000)
    assert b"after" in bytes(found.read(A0, 1, 1_000).tobytes())
    append(found, A0, b"later")
    assert b"later" in bytes(found.read(A0, 2, 1_000).tobytes())


def test_one_missing_segment_does_not_keep_the_log_from_opening(
    log: DiskLog, files: SimFiles
) -> None:
    checkpoint_with(log, b"missing", b"whole")
    log.append([(A0, batch(b"x" * 700))])
    log.committer.commit()
    path = next(path for path in files.names_of if "a" * 32 + "-0/" in path)
    disk = killed(files)
    disk.remove(path)

    found = opened(disk)

    assert any("missing" in finding for finding in found.recovery.findings)
    assert values(found, A1) == [b"whole"]
    with pytest.raises(DamagedLog):
        found.read(A0, 0, 1_000)


def test_events_after_a_start_that_outlived_what_was_before_it_survive(
    log: DiskLog, files: SimFiles
) -> None:
    append(log, B, b"under disk", b"lost with the power", b"too")
    log.cut(B, start=2)
    log.committer.commit()
    second_disk = without_power(blank(), files.trace, "all names, no bytes")
    second = opened(second_disk)
    assert second.bounds(B)[:2] == (2, 2)

    append(second, B, b"later")

    assert values(opened(killed(second_disk)), B) == [b"later"]


def crashed_in_recovery(files: SimFiles) -> Iterator[DiskLog]:
    """Recover, and recover again from each crash during that; no segment may be missing."""
    killed_at = len(files.trace)
    second_disk = SimFiles.after(blank(), files.trace)
    opened(second_disk)
    for crash in crashes(blank(), second_disk.trace, Random(0), first=killed_at):
        found = opened(SimFiles(crash.image))
        assert not [each for each in found.recovery.findings if "is missing" in each], crash.what
        yield found


def test_a_recovery_without_power_leaves_nothing_of_an_entry_that_is_lost(
    log: DiskLog, files: SimFiles
) -> None:
    for value in (b"x", b"y", b"z"):
        append(log, A0, value * 500)
    log.upkeep.checkpoint()
    log.cut(A0, start=2)

    for found in crashed_in_recovery(files):
        assert [each[:1] for each in values(found, A0) if each] in ([b"x", b"y", b"z"], [b"z"])


def test_a_recovery_that_was_interrupted_is_not_taken_for_damage(
    log: DiskLog, files: SimFiles
) -> None:
    for value in (b"x", b"y", b"z"):
        append(log, A0, value)
    log.upkeep.checkpoint()
    log.cut(A0, start=1)
    log.cut(A0, end=1)

    for found in crashed_in_recovery(files):
        assert found.bounds(A0).tail == 1


def test_a_topic_deleted_while_it_is_compacted_leaves_nothing_behind(files: SimFiles) -> None:
    log = opened(files)
    log.ensure(C, "compacted", COMPACTED)
    for number in range(12):
        log.append([(C, batch(b"%d" % number * 400, key=b"k"))])
        log.committer.commit()

    def delete_once(kind: str, path: str) -> None:
        if kind == "sync" and path.endswith("-1.seg"):
            allow(files)
            log.delete([C])

    files.before = delete_once
    log.upkeep.tick()

    assert C not in log._partitions
    assert not [path for path in (*files.names_of, *files.dirs) if C.topic_id in path]


def test_events_in_a_segment_named_like_one_that_recovery_removed_survive(
    log: DiskLog, files: SimFiles
) -> None:
    letters = [bytes([each]) * 200 for each in range(97, 107)]
    for letter in letters:
        append(log, A0, letter)
    bases = [each.base for each in log.disk_partitions()[0].segments]
    left_behind = log.disk_partitions()[0].empty_segment(bases[1], 0, 0).path
    disk = SimFiles()
    log = opened(disk)
    log.ensure(A0, "orders", FSYNC)
    append(log, A0, letters[0])
    # Of events that were never acknowledged a power cut may leave the later ones.
    disk.open(left_behind, create=True).pwrite(batch(b"left behind"), 0)
    second_disk = killed(disk)
    second = opened(second_disk)
    assert any("left behind" in each or "missing" in each for each in second.recovery.findings)

    for letter in letters[1:]:
        append(second, A0, letter)

    second.upkeep.checkpoint()
    append(second, A0, b"last")

    assert values(opened(killed(second_disk)), A0) == [*letters, b"last"]


def test_what_was_handed_over_survives_a_kill_before_its_commit(
    log: DiskLog, files: SimFiles
) -> None:
    append(log, A0, b"before")
    log.upkeep.checkpoint()

    log.append([(A0, batch(b"handed over"))]).durable.hand_over()

    assert values(opened(killed(files)), A0) == [b"before", b"handed over"]


@pytest.mark.parametrize("deed", ["tick", "checkpoint", "opening"])
def test_a_deleted_topic_leaves_nothing_behind_wherever_the_process_is_killed(
    log: DiskLog, files: SimFiles, deed: str
) -> None:
    for partition in (A0, B):
        append(log, partition, b"x" * 500, b"x" * 500)
    log.upkeep.checkpoint()
    log.delete([B])
    log.committer.commit()
    images: list[Image] = []
    if deed == "opening":
        files = killed(files)
    files.before = lambda _kind, _path: images.append(files.image())

    if deed == "opening":
        opened(files)
    elif deed == "tick":
        log.upkeep.tick()
    else:
        log.upkeep.checkpoint()

    for image in images:
        found = SimFiles(image)
        again = opened(found)
        assert not [path for path in (*found.names_of, *found.dirs) if B.topic_id in path]
        assert values(again, A0) == [b"x" * 500] * 2


def test_a_topic_deleted_while_a_checkpoint_is_made_leaves_nothing_behind(
    log: DiskLog, files: SimFiles
) -> None:
    append(log, B, b"first")

    def delete_once(kind: str, path: str) -> None:
        if kind == "sync" and path.endswith(".seg"):
            allow(files)
            log.delete([B])
            files.before = kill_after_the_manifest

    def kill_after_the_manifest(kind: str, path: str) -> None:
        if kind == "remove":
            images.append(files.image())

    images: list[Image] = []
    files.before = delete_once
    log.upkeep.checkpoint()
    log.upkeep.tick()

    assert images
    for image in images:
        found = SimFiles(image)
        opened(found)
        assert not [path for path in (*found.names_of, *found.dirs) if B.topic_id in path]
