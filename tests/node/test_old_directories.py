"""Data directories that older versions made: they open, and everything is there.

``directories/DATE.tar.xz`` was made by the version of that day: topics of every durability, one of
them compacted, a transaction that was committed and one that was aborted, cursors of groups, a
queue; then the process was killed.
"""

import tarfile
from pathlib import Path

import pytest

import mainstem
from mainstem.node.offline import verify

DIRECTORIES = sorted((Path(__file__).parent / "directories").glob("*.tar.xz"))


@pytest.fixture(params=DIRECTORIES, ids=lambda path: path.name.partition(".")[0])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "data", filter="data")
    return tmp_path / "data"


def test_there_are_directories_to_try() -> None:
    assert DIRECTORIES


def test_an_old_directory_opens_and_everything_is_there(directory: Path) -> None:
    with mainstem.open(directory) as stem:
        orders = list(stem.subscribe("orders", follow=False))
        ids = [event.json()["id"] for event in orders if event.key not in (b"c", b"a")]
        prices = {
            event.key: event.json()["price"] for event in stem.subscribe("prices", follow=False)
        }
        notes = [event.value for event in stem.subscribe("notes", follow=False)]
        queue = stem.queue("orders", name="emails", follow=False)
        left = len(queue.poll_many(1000, 0))
        local = stem.groups.show("local").lags
        classic = stem.groups.show("classic").lags
        queue.close()

    assert sorted(map(str, ids)) == sorted([*map(str, range(50)), "last"])
    assert [event.value for event in orders if event.key in (b"c", b"a")] == [b"committed"]
    assert prices == {b"0": 48, b"1": 49, b"2": 47}
    assert set(notes) == {b"kept on disk", b"just before a crash"}
    assert left == 51
    assert sum(each.cursor or 0 for each in classic) == 10
    assert sum(each.cursor or 0 for each in local) == 2


def test_what_is_written_to_an_old_directory_is_there_after_it_is_opened_again(
    directory: Path,
) -> None:
    with mainstem.open(directory) as stem:
        stem.publish("orders", {"id": "new"}, key="new")

    with mainstem.open(directory) as stem:
        found = [
            event.json()["id"]
            for event in stem.subscribe("orders", follow=False)
            if event.key == b"new"
        ]

    assert found == ["new"]
    assert not verify(directory).findings
