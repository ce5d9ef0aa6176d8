"""A data directory seen from outside."""

import os
import stat
from pathlib import Path

import pytest

import mainstem
from mainstem.core.errors import DamagedLog
from mainstem.node.data_directory import Holder, check_format, holder_of, is_log


def test_an_open_directory_names_its_holder_and_a_closed_one_has_none(tmp_path: Path) -> None:
    with mainstem.open(tmp_path):
        assert holder_of(tmp_path) == Holder(pid=os.getpid(), listens=None)

    assert is_log(tmp_path)
    assert holder_of(tmp_path) is None


def test_a_stale_lock_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 1, "listens": "localhost:9092"}')

    assert holder_of(tmp_path) is None


def test_who_only_asks_leaves_nothing_behind(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    assert not is_log(tmp_path)
    assert check_format(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_manifest_is_said_to_be_one(tmp_path: Path) -> None:
    mainstem.open(tmp_path).close()
    for name in ("manifest", "manifest.copy"):
        (tmp_path / name).write_bytes(bytes(100))

    with pytest.raises(DamagedLog):
        check_format(tmp_path)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_data_directory_is_for_its_owner_and_group_alone_like_its_files(
    tmp_path: Path,
) -> None:
    data = tmp_path / "above" / "data"
    mainstem.open(data).close()

    assert mode_of(data) == 0o750
    assert {mode_of(path) & 0o007 for path in data.rglob("*")} == {0}


def test_the_mode_of_a_directory_that_was_there_stays_as_it_was(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)

    mainstem.open(data).close()

    assert mode_of(data) == 0o755
