"""Read-only commands need no write permission and change nothing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.tmpfs import mounted_tmpfs

import mainstem
from mainstem.cli.exit_codes import Exit
from mainstem.client.embedded.stem import view_stem

READING = [
    ("verify",),
    ("topic", "ls"),
    ("topic", "show", "orders"),
    ("group", "ls"),
    ("group", "show", "billing"),
    ("group", "lag"),
    ("group", "seek", "billing", "orders", "--to", "beginning", "--dry-run"),
    ("queue", "ls"),
    ("queue", "show", "orders", "emails"),
    ("queue", "peek", "orders", "emails"),
    ("dead", "ls"),
    ("doctor",),
    ("sub", "orders", "-e"),
]

WITHOUT_RIGHTS = """
import ctypes, os, sys
# Not even root writes where it has no permission, once it gave up CAP_DAC_OVERRIDE.
ctypes.CDLL(None).prctl(24, 1)
os.execv(sys.executable, [sys.executable, "-m", "mainstem", *sys.argv[1:]])
"""
FILL = """
import mainstem, os, sys
stem = mainstem.open(sys.argv[1])
stem.publish("orders", "1")
with stem.subscribe("orders", group="billing", follow=False) as subscription:
    subscription.poll(10)
    subscription.commit()
with stem.queue("orders", name="emails") as queue:
    queue.poll(10).nack()
stem.publish("orders", "2")
if sys.argv[2] == "killed":
    os._exit(0)
stem.close()
"""


@pytest.fixture(params=["closed", "killed"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a data directory that was closed in order, or left as a kill leaves it."""
    path = tmp_path / "mainstem-data"
    subprocess.run([sys.executable, "-c", FILL, path, request.param], check=True)
    return path


def tree(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return the modes, times and bytes of everything there is."""
    found = {}
    for each in (path, *path.rglob("*")):
        stat = each.stat()
        content = each.read_bytes() if each.is_file() else b""
        found[str(each)] = (stat.st_mode, stat.st_mtime_ns, content)
    return found


def test_a_command_that_only_reads_changes_nothing(run: Run, data: Path) -> None:
    before = tree(data)

    for command in READING:
        assert run(*command).code == 0, command
        assert tree(data) == before, command
    assert run("sub", "orders", "-e").out == b"1\n2\n"


@pytest.mark.parametrize("command", ["verify", "topic ls", "group ls", "sub orders -e", "doctor"])
def test_a_directory_that_may_not_be_written_can_be_read(
    data: Path, tmp_path: Path, command: str
) -> None:
    for path in (*data.rglob("*"), data):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = tree(data)

    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS, *command.split(), "--at", data],
        capture_output=True,
        check=False,
    )

    assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False), ran.stderr
    if command.startswith("sub"):
        assert ran.stdout == b"1\n2\n"
    assert tree(data) == before
    data.chmod(0o755)


@pytest.fixture
def frozen(data: Path, tmp_path: Path) -> Iterator[Path]:
    """Give the data directory on a file system that is mounted read-only."""
    with mounted_tmpfs(tmp_path / "disk", "64m", "a read-only file system") as disk:
        shutil.copytree(data, disk / "data")
        (disk / "data" / "lock").unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield disk / "data"


def test_a_read_only_file_system_can_be_read_and_who_writes_is_told(run: Run, frozen: Path) -> None:
    at = str(frozen)

    for command in READING:
        assert run(*command, "--at", at).code == 0, command
    assert run("sub", "orders", "-e", "--at", at).out == b"1\n2\n"
    code, _, err = run("pub", "orders", "3", "--at", at)
    assert code == Exit.REFUSED
    assert f"{at} cannot be written (Read-only file system: {at}/lock)" in err
    assert "sub -e" in err


def test_who_only_reads_sees_what_was_there_and_keeps_nobody_from_writing(
    tmp_path: Path,
) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("orders", segment_bytes=65_536)
        stem.publish_many("orders", [b"%d" % number * 1000 for number in range(100)])
    with view_stem(tmp_path) as view, view.subscribe("orders", follow=False) as reader:
        with mainstem.open(tmp_path) as stem:
            stem.publish_many("orders", [b"later"] * 100)
            stem.topics.trim("orders", "latest")
        values = [event.value for event in reader]

    assert values == [b"%d" % number * 1000 for number in range(100)]


def test_a_directory_that_is_written_is_not_read_beside(run: Run, tmp_path: Path) -> None:
    with mainstem.open("mainstem-data") as stem:
        stem.publish("orders", "1")

        code, _, err = run("sub", "orders", "-e")

    assert code == Exit.REFUSED
    assert f"held by process {os.getpid()}" in err
