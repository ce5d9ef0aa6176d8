"""The crash states detect the removal of any one protection.

A proof that cannot fail proves nothing. Here the disk lies about one kind of sync, or the log does
one thing in the wrong order, and broken promises must be found.
"""

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from tests.faults.disk.crash_checks import (
    SYNCS_OF_A_CHECKPOINT,
    crash_after_two_checkpoints,
    crash_again,
    crash_and_go_on,
    crash_around_thinning,
    crash_everywhere,
)
from tests.faults.disk.random_workload import A0, born
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.log.commit import manifest, wal
from mainstem.log.commit.deleted_files import DeletedFiles
from mainstem.log.disk import DiskLog
from mainstem.log.files.files import Files
from mainstem.log.segments import index
from mainstem.log.segments.segment import Segment

SEEDS = range(8)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BLOCK_BYTES", 256)


def _broken(lies: Callable[[str], bool]) -> list[str]:
    """Return the promises broken in the first life that breaks any."""
    for seed in SEEDS:
        life = born(seed)
        life.files.lies = lies
        life.live(deeds=30)
        trial = crash_everywhere(life, Random(seed), at_least=0)
        if trial.failures:
            return trial.failures
    return []


def _broken_after_recovery() -> list[str]:
    for seed in SEEDS:
        life = born(seed)
        life.live(deeds=20)
        trial = crash_again(life, Random(seed), share=0.02, deeds=4)
        if trial.failures:
            return trial.failures
    return []


def _too_early(self: DeletedFiles, segment: Segment) -> None:
    self._file_cache.drop(segment.path)
    self._files.remove(segment.path)


def _honest(path: str) -> bool:
    return False


@pytest.mark.parametrize(
    "lies",
    [
        pytest.param(lambda path: path.endswith(".wal"), id="the write-ahead log"),
        pytest.param(lambda path: path.endswith(".seg"), id="segments"),
        pytest.param(lambda path: path.startswith("manifest"), id="the manifest"),
        pytest.param(lambda path: path == "wal/", id="the directory of the write-ahead log"),
        pytest.param(lambda path: path == "partitions/", id="the directory of partitions"),
        pytest.param(
            lambda path: (
                path.startswith("partitions/") and path[-1] == "/" and path.count("/") == 2
            ),
            id="the directories of segments",
        ),
        pytest.param(lambda path: path == "/", id="the data directory"),
    ],
)
def test_a_sync_that_does_nothing_is_found_out(lies: Callable[[str], bool]) -> None:
    assert _broken(lies)


@pytest.mark.parametrize(
    "lies",
    [
        pytest.param(lambda path: path.endswith("-1.seg"), id="rewritten segments"),
        pytest.param(lambda path: path.endswith(f"{A0.topic_id}-0/"), id="their directory"),
        pytest.param(lambda path: path.endswith(".wal"), id="the note that they are replaced"),
    ],
)
def test_a_sync_of_thinning_that_does_nothing_is_found_out(lies: Callable[[str], bool]) -> None:
    trial = crash_around_thinning(1, lies)

    assert trial.thinned
    assert trial.failures


def test_removing_thinned_segments_before_that_is_durable_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DeletedFiles, "add_segment", _too_early)

    assert crash_around_thinning(1).failures


def test_giving_up_the_write_ahead_log_before_the_manifest_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = manifest.write

    def too_late(files: Files, number: int, sequence: int, parts: list[msgspec.Raw]) -> None:
        for place in wal.listed(files):
            if place.number < number:
                files.remove(place.path)
        write(files, number, sequence, parts)

    monkeypatch.setattr(manifest, "write", too_late)

    assert _broken(_honest)


def test_removing_deleted_files_before_that_is_durable_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DeletedFiles, "add_segment", _too_early)

    assert _broken(_honest)


def test_serving_before_recovery_has_synced_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = DiskLog.open

    def lazily(*args: object, files: SimFiles, **more: object) -> DiskLog:
        files.lies = lambda path: path.startswith("partitions")
        try:
            return opening(files=files, **more)  # type: ignore[arg-type]
        finally:
            files.lies = _honest

    monkeypatch.setattr(DiskLog, "open", lazily)

    assert _broken_after_recovery()


def test_counting_reserved_space_as_durable_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(self: Segment, size: int) -> None:
        self.file.sync()
        self.synced_size = self.size

    monkeypatch.setattr(Segment, "sync", too_much)
    trials = [
        crash_after_two_checkpoints(number, "append_together")
        for number in range(1, SYNCS_OF_A_CHECKPOINT)
    ]

    assert any(trial.failures for trial in trials)


def test_holding_on_to_files_that_recovery_removed_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def held(self: Segment, files: Files) -> None:
        files.remove(self.path)
        files.remove(self.index_path)

    monkeypatch.setattr(Segment, "remove", held)
    life = born(50_000)
    life.live(deeds=20, often="append_large")

    assert crash_and_go_on(life, Random(50_000), share=0.05).failures
