"""Clock jumps, signals, and several processes on one directory lose no event."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.disk.disk_steps import append, batch, killed, opened, values
from tests.faults.disk.random_workload import A0, COMPACTED, FSYNC, RETAINED, C, D
from tests.faults.disk.simulated_disk import SimFiles
from tests.faults.test_kill import PARTITIONS, WRITER, acknowledged, recovered_tails

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
OPENER = """
import sys
from pathlib import Path
from mainstem.core.errors import DirectoryInUse
from mainstem.log.disk import DiskLog
try:
    log = DiskLog.open(Path(sys.argv[1]), now_ms=lambda: 0, listens="127.0.0.1:9092")
except DirectoryInUse as refusal:
    print("refused", *str(refusal).split(), flush=True)
else:
    print("opened", flush=True)
    sys.stdin.read()
    log.close()
"""


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, 10 * YEAR_MS])
def test_a_clock_that_jumps_and_comes_back_loses_nothing(jump_ms: int) -> None:
    start_ms = now_ms = 50 * YEAR_MS
    files = SimFiles()
    log = opened(files, lambda: now_ms)
    log.ensure(A0, "orders", FSYNC)
    log.ensure(C, "states", COMPACTED)
    written = []
    for turn, now_ms in enumerate((start_ms, start_ms + jump_ms, start_ms + 1)):
        for number in range(8):
            value = b"%d %d" % (turn, number) + b"." * 150
            append(log, A0, value)
            log.append([(C, batch(value, key=b"key %d" % number, time=now_ms))])
            written.append(value)
        log.committer.commit()
        log.upkeep.tick()
        log.upkeep.checkpoint()

    found = opened(killed(files), lambda: now_ms)

    assert values(found, A0) == written
    latest = {value[2:3]: value for value in written}
    assert set(latest.values()) <= set(values(found, C))


def test_a_clock_an_hour_back_deletes_nothing_and_retention_goes_on_when_it_is_right() -> None:
    now_ms = start_ms = 50 * YEAR_MS
    log = opened(SimFiles(), lambda: now_ms)
    log.ensure(D, "retained", RETAINED.altered(retention_bytes=None))
    log.append([(D, batch(b"old", time=start_ms))])
    log.committer.commit()

    now_ms = start_ms - HOUR_MS
    log.upkeep.tick()
    log.append([(D, batch(b"new", time=start_ms - HOUR_MS))])
    log.committer.commit()
    log.upkeep.tick()
    assert values(log, D) == [b"old", b"new"]

    now_ms = start_ms + HOUR_MS
    log.upkeep.tick()
    log.upkeep.tick()
    assert values(log, D) == []
    assert log.bounds(D)[:3] == (2, 2, 2)


def test_times_are_found_though_they_do_not_grow() -> None:
    log = opened(SimFiles())
    log.ensure(A0, "orders", FSYNC)
    for time in (5_000, 1_000, 9_000, 2_000):
        log.append([(A0, batch(b"%d" % time, time=time))])
    log.committer.commit()

    assert log.offset_at(A0, 0) == (0, 5_000)
    assert log.offset_at(A0, 5_001) == (2, 9_000)
    assert log.offset_at(A0, 9_001) is None


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_asked_to_end_under_load_loses_nothing(tmp_path: Path, times: int) -> None:
    known = [0] * PARTITIONS
    for _ in range(3):
        arguments = [sys.executable, "-c", WRITER, str(tmp_path), str(PARTITIONS)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.read(1) == b"R"
            written = writer.stdout.read(2_000)
            for _ in range(times):
                writer.send_signal(signal.SIGTERM)
            written += writer.stdout.read()
            assert writer.wait(10) == -signal.SIGTERM
        known = acknowledged(written, known)

    tails = recovered_tails(tmp_path)
    assert all(tail >= count for tail, count in zip(tails, known, strict=True))
    assert sum(known) > 500


def test_of_many_who_want_a_directory_at_once_one_gets_it_and_is_named_to_the_others(
    tmp_path: Path,
) -> None:
    arguments = [sys.executable, "-c", OPENER, str(tmp_path)]
    racers = [
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]

    said = [racer.stdout.readline() for racer in racers if racer.stdout]
    winners = [racer for racer, line in zip(racers, said, strict=True) if line == "opened\n"]
    for racer in racers:
        racer.communicate(timeout=30)

    assert len(winners) == 1
    assert [racer.returncode for racer in racers] == [0] * 6
    refused = [line for line in said if line.startswith("refused")]
    assert len(refused) == 5
    assert any(f"process {winners[0].pid}" in line and "127.0.0.1:9092" in line for line in refused)


def test_a_lock_file_left_by_a_process_that_was_killed_is_recognised(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", OPENER, str(tmp_path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed_one:
        assert killed_one.stdout is not None
        assert killed_one.stdout.readline() == "opened\n"
        killed_one.kill()
    assert str(killed_one.pid) in (tmp_path / "lock").read_text()

    second = subprocess.run(arguments, input="", capture_output=True, text=True, check=True)

    assert second.stdout == "opened\n"
