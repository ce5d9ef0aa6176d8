"""The file-system port on the operating system's own files."""

from pathlib import Path

import pytest

from mainstem.log.files import RealFiles


def test_a_directory_is_made_with_those_above_it_and_may_be_there_already(tmp_path: Path) -> None:
    files = RealFiles(tmp_path)

    for path in ("partitions/a", "partitions/a", "partitions/b", "partitions"):
        files.make_dir(path)

    assert files.names("") == ["partitions"]
    assert files.names("partitions") == ["a", "b"]


def test_a_file_where_a_directory_should_be_is_an_error(tmp_path: Path) -> None:
    files = RealFiles(tmp_path)
    files.open("taken", create=True)

    for path in ("taken", "taken/below"):
        with pytest.raises(OSError, match="taken"):
            files.make_dir(path)
