"""Files of the log that were changed by others while it was open or closed.

What is found is named or harmless; nothing that might be somebody's event is deleted; and no event
is ever wrong, doubled, or missing without a word.
"""

import struct
from collections.abc import Callable

import pytest
from tests.faults.disk.disk_steps import append, batch, killed, opened, values
from tests.faults.disk.random_workload import A0, A1, FSYNC
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.core.checksum import crc32c
from mainstem.core.errors import CorruptBatch, DamagedLog, FormatTooNew, MainstemError
from mainstem.log.commit import manifest, wal
from mainstem.log.disk import DiskLog
from mainstem.log.segments import index

EVENTS = [b"%02d" % number + b"." * 90 for number in range(24)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BLOCK_BYTES", 256)


def _filled() -> tuple[DiskLog, SimFiles]:
    files = SimFiles()
    log = opened(files)
    for partition in (A0, A1):
        log.ensure(partition, "orders", FSYNC)
    for value in EVENTS:
        append(log, A0, value)
        append(log, A1, value[::-1])
    return log, files


@pytest.fixture
def stopped() -> SimFiles:
    """A log of several segments that was closed."""
    log, files = _filled()
    log.close()
    return killed(files)


@pytest.fixture
def crashed() -> SimFiles:
    """A log that was killed some time after a checkpoint."""
    log, files = _filled()
    log.upkeep.checkpoint()
    for value in (b"late", b"later"):
        append(log, A0, value)
        append(log, A1, value)
    return killed(files)


def _segments(files: SimFiles, suffix: str = ".seg") -> list[str]:
    """Return the paths of the segments of the first partition, in order."""
    directory = f"partitions/{A0.topic_id}-0/"
    return sorted(p for p in files.names_of if p.startswith(directory) and p.endswith(suffix))


def _content(files: SimFiles, path: str) -> bytes:
    return bytes(files.data[files.names_of[path]])


def _put(files: SimFiles, path: str, content: bytes) -> None:
    file = files.open(path, create=True)
    file.truncate(0)
    file.pwrite(content, 0)


def _read_or_told(log: DiskLog, expected: list[bytes]) -> bool:
    """Read on from every offset; tell whether all is there, or else somebody was told of damage."""
    whole = True
    for offset in range(log.bounds(A0).start, log.bounds(A0).tail):
        try:
            found = bytes(log.read(A0, offset, 1).tobytes())
        except (DamagedLog, CorruptBatch):
            whole = False
        else:
            assert expected[offset] in found
    assert values(log, A1)[: len(EVENTS)] == [each[::-1] for each in EVENTS]
    return whole


TAILS = pytest.mark.parametrize(
    "tail", [bytes(500), b"garbage" * 50, bytes(100) + b"garbage"], ids=["zeros", "garbage", "both"]
)


def _opened_with(tail: bytes, files: SimFiles) -> DiskLog:
    """Open the log once its last segment goes on with these bytes."""
    path = _segments(files)[-1]
    _put(files, path, _content(files, path) + tail)
    return opened(files)


@TAILS
def test_a_tail_of_zeros_or_garbage_is_not_read_and_written_over(
    stopped: SimFiles, tail: bytes
) -> None:
    log = _opened_with(tail, stopped)
    append(log, A0, b"next")

    assert values(log, A0) == [*EVENTS, b"next"]
    assert values(opened(killed(stopped)), A0) == [*EVENTS, b"next"]


@TAILS
def test_a_tail_of_garbage_after_a_crash_is_kept_in_quarantine(
    crashed: SimFiles, tail: bytes
) -> None:
    log = _opened_with(tail, crashed)

    assert values(log, A0) == [*EVENTS, b"late", b"later"]
    assert bool(log.recovery.findings) == bool(tail.strip(b"\0"))
    kept = [_content(crashed, f"quarantine/{name}") for name in crashed.names("quarantine")]
    assert kept == ([tail] if tail.strip(b"\0") else [])


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_a_missing_segment_is_told_and_the_others_are_read(
    request: pytest.FixtureRequest, state: str, which: int
) -> None:
    files: SimFiles = request.getfixturevalue(state)
    path = _segments(files)[which]
    files.remove(path)

    log = opened(files)

    # What was begun since the checkpoint is made again from the write-ahead log.
    healed = state == "crashed" and which == -1
    assert _read_or_told(log, [*EVENTS, b"late", b"later"]) == healed
    told = any(path in finding for finding in log.recovery.findings)
    assert told == (state == "crashed" and not healed)


@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_swapped_segments_are_told(request: pytest.FixtureRequest, state: str) -> None:
    files: SimFiles = request.getfixturevalue(state)
    first, second = _segments(files)[:2]
    one, other = _content(files, first), _content(files, second)
    _put(files, first, other)
    _put(files, second, one)

    assert not _read_or_told(opened(files), [*EVENTS, b"late", b"later"])


def test_the_segment_of_another_partition_is_told(stopped: SimFiles) -> None:
    ours = _segments(stopped)[0]
    theirs = ours.replace(f"{A0.topic_id}-0", f"{A1.topic_id}-1")
    _put(stopped, ours, _content(stopped, theirs))

    assert not _read_or_told(opened(stopped), EVENTS)


@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_an_older_shorter_segment_is_told(request: pytest.FixtureRequest, state: str) -> None:
    files: SimFiles = request.getfixturevalue(state)
    path = _segments(files)[1]
    _put(files, path, _content(files, path)[:300])

    assert not _read_or_told(opened(files), [*EVENTS, b"late", b"later"])


@pytest.mark.parametrize("name", ["{:020d}-9.seg", "{:020d}-0.seg"])
@pytest.mark.parametrize("base", [0, 3, 500])
def test_a_copy_of_a_segment_does_not_double_events(
    crashed: SimFiles, base: int, name: str
) -> None:
    original = _segments(crashed)[0]
    path = f"{original.rpartition('/')[0]}/{name.format(base)}"
    if path != original:
        _put(crashed, path, _content(crashed, original))

    log = opened(crashed)

    assert values(log, A0) == [*EVENTS, b"late", b"later"]


def test_a_segment_that_may_be_the_only_copy_of_a_missing_one_is_not_deleted(
    crashed: SimFiles,
) -> None:
    original = _segments(crashed)[0]
    newer = original.replace("-0.seg", "-7.seg")
    content = _content(crashed, original)
    crashed.remove(original)
    _put(crashed, newer, content)

    opened(crashed)

    assert content in [bytes(each) for each in crashed.data.values()]
    assert newer in crashed.names_of


def _reversed(entries: bytes) -> bytes:
    size = index.ENTRY_SIZE
    return b"".join(entries[at : at + size] for at in reversed(range(0, len(entries), size)))


def _repeated(entries: bytes) -> bytes:
    return entries[: index.ENTRY_SIZE] * (len(entries) // index.ENTRY_SIZE)


@pytest.mark.parametrize(
    "change", [_reversed, _repeated, lambda entries: b"", lambda entries: entries * 2]
)
@pytest.mark.parametrize("which", [0, -1])
def test_a_wrong_index_is_made_again(
    stopped: SimFiles, change: Callable[[bytes], bytes], which: int
) -> None:
    path = _segments(stopped, ".idx")[which]
    _put(stopped, path, change(_content(stopped, path)))

    assert values(opened(stopped), A0) == EVENTS


def test_the_index_of_another_segment_is_told_or_made_again(stopped: SimFiles) -> None:
    first, second = _segments(stopped, ".idx")[:2]
    _put(stopped, first, _content(stopped, second))

    _read_or_told(opened(stopped), EVENTS)


def test_a_missing_index_is_made_again(stopped: SimFiles) -> None:
    for path in _segments(stopped, ".idx"):
        stopped.remove(path)

    assert values(opened(stopped), A0) == EVENTS


@pytest.mark.parametrize("names", [("manifest",), ("manifest.copy",), manifest.NAMES])
def test_a_newer_format_is_refused_and_nothing_is_changed(
    stopped: SimFiles, names: tuple[str, ...]
) -> None:
    for name in names:
        content = bytearray(_content(stopped, name))
        body = bytes(content[16:])
        version = manifest.FORMAT + 1
        check = crc32c(body, crc32c(version.to_bytes(4, "big")))
        _put(stopped, name, b"mainstem" + struct.pack(">II", version, check) + body)
    stopped.trace.clear()

    with pytest.raises(FormatTooNew, match="newer mainstem"):
        opened(stopped)

    assert stopped.trace == []


def test_an_entry_of_a_newer_kind_is_refused_and_nothing_is_changed(
    crashed: SimFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "_KINDS", frozenset({wal.Kind.OPENED}))
    crashed.trace.clear()

    with pytest.raises(FormatTooNew, match="newer mainstem"):
        opened(crashed)

    assert crashed.trace == []


def test_leftovers_of_a_rename_are_passed_over(stopped: SimFiles) -> None:
    directory = _segments(stopped)[0].rpartition("/")[0]
    for path in ("manifest.new", "manifest.copy.new", "wal/next", "wal/x.wal", "wal/1-zz.wal"):
        _put(stopped, path, b"half of something")
    for name in ("x.seg", "notes.txt", "00000000000000000000.seg", "1-2-3.seg"):
        _put(stopped, f"{directory}/{name}", b"half of something")

    log = opened(stopped)
    append(log, A0, b"next")
    log.upkeep.checkpoint()

    assert values(log, A0) == [*EVENTS, b"next"]
    assert values(opened(killed(stopped)), A0) == [*EVENTS, b"next"]


def test_a_write_ahead_log_that_is_gone_after_a_crash_is_told(crashed: SimFiles) -> None:
    for name in crashed.names("wal"):
        crashed.remove(f"wal/{name}")

    log = opened(crashed)

    assert any("there is no file from number" in each for each in log.recovery.findings)
    assert values(log, A0) == EVENTS


@pytest.mark.parametrize("path", ["partitions", "wal", "quarantine"])
def test_a_directory_that_is_gone_is_told_or_made_again(path: str) -> None:
    log, files = _filled()
    log.close()
    image = files.image()
    for name in [each for each in image.names if each.startswith(f"{path}/")]:
        del image.names[name]
    image.dirs.difference_update({each for each in image.dirs if each.startswith(path)})

    try:
        found = opened(SimFiles(image))
        intact = values(found, A0) == EVENTS
        append(found, A0, b"next")
    except MainstemError:
        return
    assert intact


@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_an_older_manifest_does_not_make_the_log_delete_newer_segments(
    request: pytest.FixtureRequest, state: str
) -> None:
    older = SimFiles()
    early = opened(older)
    for partition in (A0, A1):
        early.ensure(partition, "orders", FSYNC)
    for value in EVENTS[:4]:
        append(early, A0, value)
        append(early, A1, value)
    early.close()
    files: SimFiles = request.getfixturevalue(state)
    for name in manifest.NAMES:
        _put(files, name, _content(older, name))
    before = {bytes(each) for path, each in _all(files) if path.endswith(".seg")}

    log = opened(files)
    log.append([(A0, batch(b"after"))])
    log.committer.commit()

    after = [bytes(each) for _, each in _all(killed(files))]
    for content in before:
        assert any(content[:60] in each for each in after)


def _all(files: SimFiles) -> list[tuple[str, bytes | bytearray]]:
    return [(path, files.data[node]) for path, node in files.names_of.items()]
