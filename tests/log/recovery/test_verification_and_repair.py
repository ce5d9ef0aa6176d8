"""Damage is named by verify, and repair keeps everything that can still be read."""

from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, SMALL, append, fill, open_log, stored

from mainstem.core.errors import DamagedLog
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.node import offline

VALUES = [b"value %04d " % number * 10 for number in range(40)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", SMALL)
    fill(log, ORDERS, VALUES)
    log.close()
    return tmp_path


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "partitions").glob("*/*.seg"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def test_a_whole_directory_has_no_findings(directory: Path) -> None:
    checked = offline.verify(directory)

    assert checked.findings == []
    assert (checked.partitions, checked.events, checked.clean) == (1, len(VALUES), True)
    assert checked.segments == len(segments(directory)) > 1


def test_verify_names_the_file_and_byte_of_damage(directory: Path) -> None:
    victim = segments(directory)[1]
    flip(victim, 70)

    (finding,) = offline.verify(directory).findings

    assert victim.name in finding.place
    assert finding.place.endswith("at byte 0")
    assert finding.serious


def test_repair_loses_only_the_damaged_batch_and_keeps_its_bytes(directory: Path) -> None:
    victim = segments(directory)[1]
    flip(victim, 70)
    damaged = victim.read_bytes()

    repaired = offline.repair(directory)

    assert (repaired.segments, len(repaired.lost)) == (1, 1)
    log = open_log(directory)
    found = stored(log, ORDERS)
    assert len(found) == len(VALUES) - 1
    assert all(value == VALUES[offset] for offset, value in found)
    assert log.bounds(ORDERS).tail == len(VALUES)
    log.close()
    (kept,) = (directory / "quarantine").iterdir()
    assert kept.read_bytes() == damaged
    assert not any(each.serious for each in offline.verify(directory).findings)


@pytest.mark.parametrize("position", [3, 7, 14])
def test_a_flipped_base_offset_or_epoch_is_found_on_read_and_restored_by_repair(
    directory: Path, position: int
) -> None:
    flip(segments(directory)[1], position)

    log = open_log(directory)
    with pytest.raises(DamagedLog):
        stored(log, ORDERS)
    log.close()
    assert offline.verify(directory).findings
    repaired = offline.repair(directory)

    assert (repaired.restored, repaired.lost) == (1, [])
    log = open_log(directory)
    assert stored(log, ORDERS) == list(enumerate(VALUES))
    log.close()


def test_repair_makes_a_lost_manifest_again(directory: Path) -> None:
    for name in ("manifest", "manifest.copy"):
        flip(directory / name, 30)
    with pytest.raises(DamagedLog, match="repair"):
        open_log(directory)

    repaired = offline.repair(directory)

    assert repaired.manifest_rebuilt
    log = open_log(directory)
    assert stored(log, ORDERS) == list(enumerate(VALUES))
    append(log, ORDERS, b"next")
    assert log.bounds(ORDERS).tail == len(VALUES) + 1
    log.close()


def test_one_damaged_manifest_is_mended_by_its_copy(directory: Path) -> None:
    flip(directory / "manifest", 30)

    (finding,) = offline.verify(directory).findings
    log = open_log(directory)

    assert not finding.serious
    assert log.recovery.findings
    assert stored(log, ORDERS) == list(enumerate(VALUES))
    log.close()


def test_a_missing_segment_is_named_and_the_rest_stays_readable_after_repair(
    directory: Path,
) -> None:
    victim = segments(directory)[1]
    victim.unlink()

    (finding,) = (each for each in offline.verify(directory).findings if each.serious)
    repaired = offline.repair(directory)

    assert "missing" in finding.problem
    assert len(repaired.lost) == 1
    log = open_log(directory)
    found = stored(log, ORDERS)
    assert 0 < len(found) < len(VALUES)
    assert all(value == VALUES[offset] for offset, value in found)
    log.close()


def test_a_changed_header_in_a_compacted_segment_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings(compact=True, segment_bytes=2048))
    for number in range(60):
        append(log, ORDERS, Event(b"x" * 50, key=b"%d" % (number % 7)))
    log.upkeep.tick()
    log.close()
    compacted = segments(tmp_path)[0]
    flip(compacted, 7)

    findings = offline.verify(tmp_path).findings

    assert any(compacted.name in each.place and each.serious for each in findings)
