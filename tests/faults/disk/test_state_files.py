"""The log's own files damaged bit by bit: index, manifest, its copy, write-ahead log.

Each flip, and each truncation, is detected (an error, or a finding that names the file) or harmless
(readers get exactly the original events).
"""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.faults.disk.disk_steps import append, batch, opened
from tests.faults.disk.random_workload import A0, A1, DISK, FSYNC, B
from tests.faults.disk.simulated_disk import Image, SimFiles
from tests.faults.ledger import Found, read_all

from mainstem.core.errors import DamagedLog
from mainstem.log.commit import wal
from mainstem.log.port import PartitionId
from mainstem.log.segments import index

Events = dict[PartitionId, list[Found]]
PARTITIONS = (A0, A1, B)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BLOCK_BYTES", 256)


def _written(*, stop: bool) -> tuple[Image, Events]:
    """Return the disk of a log with a few events, stopped cleanly or killed."""
    files = SimFiles()
    log = opened(files)
    for partition, settings in ((A0, FSYNC), (A1, FSYNC), (B, DISK)):
        log.ensure(partition, "orders", settings)
    for number in range(8):
        append(log, A0, b"a %d" % number + b"." * 60)
        log.append([(A1, batch(b"b %d" % number)), (B, batch(b"c %d" % number))])
        log.committer.commit()
        if number == 5:
            log.upkeep.checkpoint()
    events = {each: read_all(log, each, 1 << 20) for each in PARTITIONS}
    if stop:
        log.close()
    return files.image(), events


def _flipped(data: bytes, end: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes with every bit flipped in turn."""
    whole = bytearray(data)
    for bit in range(8 * (len(whole) if end is None else end)):
        whole[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(whole)
        whole[bit // 8] ^= 1 << bit % 8


def _cut(data: bytes, end: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes cut to every length."""
    for length in range(len(data) if end is None else end):
        yield f"cut to {length}", data[:length]


def _damaged(data: bytes, end: int | None = None) -> Iterator[tuple[str, bytes]]:
    yield from _flipped(data, end)
    yield from _cut(data, end)


def _outcome(image: Image, events: Events) -> str:
    """Open and read everything; wrong events, or missing ones that nobody named, are an error."""
    try:
        log = opened(SimFiles(image))
        found = {each: read_all(log, each, 1 << 20) for each in PARTITIONS}
    except DamagedLog:
        return "refused"
    if found == events:
        return "named" if log.recovery.findings else "harmless"
    assert log.recovery.findings, "events are missing, and nobody said so"
    for partition, original in events.items():
        kept = found[partition]
        assert kept == original[: len(kept)], "events are wrong"
    return "named, with a loss"


def _outcomes(
    image: Image,
    events: Events,
    path: str,
    damage: Callable[[bytes, int | None], Iterator[tuple[str, bytes]]] = _damaged,
    end: int | None = None,
) -> dict[str, int]:
    """Return how often each outcome came about."""
    counted: dict[str, int] = {}
    node = image.names[path]
    for what, data in damage(image.data[node], end):
        worse = image.copy()
        worse.data[node] = data
        try:
            outcome = _outcome(worse, events)
        except AssertionError as error:
            raise AssertionError(f"{path}, {what}: {error}") from error
        counted[outcome] = counted.get(outcome, 0) + 1
    return counted


def _path(image: Image, matches: Callable[[str], bool]) -> str:
    return next(path for path in sorted(image.names) if matches(path))


def test_a_damaged_index_is_made_again_from_its_segment() -> None:
    image, events = _written(stop=True)
    path = _path(image, lambda path: path.endswith(".idx"))

    assert set(_outcomes(image, events, path)) == {"harmless"}


@pytest.mark.parametrize("path", ["manifest", "manifest.copy"])
def test_a_damaged_manifest_is_named_and_the_other_one_used(path: str) -> None:
    image, events = _written(stop=True)

    assert set(_outcomes(image, events, path)) == {"named"}


@pytest.mark.parametrize("path", ["manifest", "manifest.copy"])
def test_a_damaged_manifest_is_named_after_a_kill_too(path: str) -> None:
    image, events = _written(stop=False)

    assert set(_outcomes(image, events, path)) == {"named"}


def test_both_manifests_damaged_are_refused() -> None:
    image, events = _written(stop=True)
    image.data[image.names["manifest.copy"]] = b"x" + image.data[image.names["manifest.copy"]][1:]

    assert set(_outcomes(image, events, "manifest")) == {"refused"}


def test_manifests_that_are_gone_are_not_taken_for_a_fresh_directory() -> None:
    image, events = _written(stop=True)
    del image.names["manifest"], image.names["manifest.copy"]

    assert _outcome(image, events) == "refused"


def test_a_flipped_bit_of_the_write_ahead_log_is_named_and_its_events_are_in_the_segments() -> None:
    image, events = _written(stop=False)
    path = max(path for path in image.names if path.endswith(".wal"))
    used = len(image.data[image.names[path]].rstrip(b"\0"))

    assert set(_outcomes(image, events, path, _flipped, used)) == {"named"}


def test_a_write_ahead_log_cut_to_any_length_is_named() -> None:
    image, events = _written(stop=False)
    path = max(path for path in image.names if path.endswith(".wal"))
    used = len(image.data[image.names[path]].rstrip(b"\0"))

    assert set(_outcomes(image, events, path, _cut, used)) <= {"named", "named, with a loss"}


def test_a_write_ahead_log_that_is_not_needed_any_more_may_be_damaged() -> None:
    image, events = _written(stop=True)
    older = min(path for path in image.names if path.endswith(".wal"))

    assert set(_outcomes(image, events, older, end=400)) == {"harmless"}


def test_an_event_that_looks_like_an_entry_of_the_write_ahead_log_is_only_an_event() -> None:
    files = SimFiles()
    log = opened(files)
    log.ensure(A0, "orders", FSYNC)
    forger = SimFiles()
    forger.make_dir(wal.DIRECTORY)
    place, file = wal.prepare(forger, 1, None)
    elsewhere = wal.WriteAheadLog(place, file, 1 << 40, 512)
    elsewhere.add(wal.Kind.DELETE, [msgspec.msgpack.encode([A0])])
    elsewhere.flush()
    forged = file.pread(file.size(), 0)
    append(log, A0, b"." * 300 + forged)
    # The file that holds the event is used again, and only its beginning is written over.
    log.upkeep.checkpoint()
    log.upkeep.checkpoint()
    append(log, A0, b"after")

    found = opened(SimFiles(files.image()))

    assert found.bounds(A0).end == 2
    assert not found.recovery.findings
