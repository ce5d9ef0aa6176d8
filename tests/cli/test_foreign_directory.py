"""Commands on an untrusted data directory: symbolic links in it are not followed."""

import os
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit

COMMANDS = pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("topic", "ls"),
        ("sub", "orders", "-e"),
        ("sub", "orders", "-c", "1"),
        ("pub", "orders", "2"),
        ("repair", "--yes"),
    ],
    ids=" ".join,
)


@pytest.fixture
def data(run: Run, tmp_path: Path) -> Path:
    """Give a data directory with one event."""
    assert run("pub", "orders", "1").code == 0
    return tmp_path / "mainstem-data"


def moved_behind_a_link(path: Path, elsewhere: Path) -> Path:
    """Move a file or directory to elsewhere and leave a link to it."""
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    return path


def without_lock(data: Path, tmp_path: Path) -> Path:
    """Remove the lock; return a file of somebody else's that a test may put in its place."""
    (data / "lock").unlink()
    diary = tmp_path / "diary"
    diary.write_text("dear diary")
    return diary


@COMMANDS
def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays_whole(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    diary = without_lock(data, tmp_path)
    (data / "lock").symlink_to(diary)

    code, out, err = run(*command)

    assert diary.read_text() == "dear diary"
    assert (code, out) == (Exit.REFUSED, b"")
    assert f"{data.name}/lock is a symbolic link" in err
    assert "remove it" in err


@COMMANDS
def test_a_lock_that_would_be_made_through_a_link_is_not_made(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (data / "lock").unlink()
    (data / "lock").symlink_to(tmp_path / "made")

    assert run(*command).code == Exit.REFUSED
    assert not (tmp_path / "made").exists()


@COMMANDS
@pytest.mark.parametrize("name", ["manifest", "partitions", "wal"])
def test_what_the_log_needs_is_not_opened_through_a_link(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    moved_behind_a_link(data / name, tmp_path / "elsewhere")

    code, _, err = run(*command)

    assert code == Exit.REFUSED
    assert f"{data.name}/{name} is a symbolic link" in err


@COMMANDS
def test_a_partition_directory_that_is_a_link_is_refused_by_name(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    partition = sorted((data / "partitions").iterdir())[0]
    moved_behind_a_link(partition, tmp_path / "elsewhere")

    code, _, err = run(*command)

    assert code == Exit.REFUSED
    assert f"partitions/{partition.name} is a symbolic link" in err


@pytest.mark.parametrize("command", [("verify",), ("sub", "orders", "-e"), ("repair", "--yes")])
def test_a_segment_that_is_a_link_is_refused_by_name(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (segment,) = (
        path for path in (data / "partitions").rglob("*.seg") if "0000000010-" not in str(path)
    )
    moved_behind_a_link(segment, tmp_path / "elsewhere")

    code, _, err = run(*command)

    assert code == Exit.REFUSED
    assert f"{segment.name} is a symbolic link" in err


@pytest.mark.parametrize("command", [("pub", "orders", "2"), ("verify",), ("doctor",)])
def test_a_lock_that_is_no_lock_of_ours_stays_as_it_is(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    diary = without_lock(data, tmp_path)
    # A link of the other kind, which looks like a file.
    (data / "lock").hardlink_to(diary)

    run(*command)

    assert diary.read_text() == "dear diary"


def test_who_takes_a_lock_that_is_not_ours_is_told_what_to_do(run: Run, data: Path) -> None:
    (data / "lock").write_text("dear diary")

    code, _, err = run("pub", "orders", "2")

    assert code == Exit.REFUSED
    assert f"{data.name}/lock" in err
    assert "remove it" in err


def test_a_lock_that_is_a_pipe_makes_nobody_wait(run: Run, data: Path) -> None:
    (data / "lock").unlink()
    os.mkfifo(data / "lock")

    assert run("pub", "orders", "2").code == Exit.REFUSED
    assert run("topic", "ls").code == Exit.REFUSED


def test_the_data_directory_itself_may_be_a_link(run: Run, data: Path, tmp_path: Path) -> None:
    moved_behind_a_link(data, tmp_path / "elsewhere")

    assert run("pub", "orders", "2").code == 0
    assert run("sub", "orders", "-e").out == b"1\n2\n"
    assert run("verify").code == 0
