"""The file-system port on the operating system's own files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.log.files.files import RealFiles
from mainstem.log.files.read_only import ReadOnlyFiles


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


@given(data=st.data())
def test_files_that_are_only_read_behave_as_others_and_change_nothing(data: st.DataObject) -> None:
    numbers = st.integers(0, 200_000)
    steps = st.lists(
        st.tuples(st.sampled_from(["pwrite", "truncate", "allocate", "reopen", "rename"]), numbers),
        max_size=12,
    )
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        for directory in (first, second):
            Path(directory, "a").write_bytes(bytes(range(256)) * 500)
        twins = RealFiles(Path(first)), ReadOnlyFiles(Path(second))
        name = "a"
        real, layered = (files.open(name) for files in twins)
        for step, number in data.draw(steps):
            if step == "rename":
                for files in twins:
                    files.rename(name, f"{name}a")
                name = f"{name}a"
            if step in ("rename", "reopen"):
                real, layered = (files.open(name) for files in twins)
            for file in (real, layered):
                match step:
                    case "pwrite":
                        file.pwrite(b"x" * (number % 70_000), number)
                    case "truncate":
                        file.truncate(number)
                    case "allocate":
                        file.allocate(number, 1000)
            assert layered.size() == real.size()
            assert layered.pread(number, number // 2) == real.pread(number, number // 2)
            assert layered.pread(300_000, 0) == real.pread(300_000, 0)
        assert twins[1].names("") == twins[0].names("") == [name]

        assert Path(second, "a").read_bytes() == bytes(range(256)) * 500
