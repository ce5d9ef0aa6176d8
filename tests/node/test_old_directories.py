"""Data directories that older versions made: they open, and everything is there.

``directories/DATE.tar.xz`` was made by the version of that day (``make_directory.py``): topics of
every durability, one of them compacted, a transaction that was committed and one that was aborted,
cursors of groups, a queue; since 2026-11-19 also exchanges, a queue and a delayed message of AMQP.
Then the process was killed.
"""

import tarfile
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from tests.faults.killable_server import Mortal

import mainstem
from mainstem.node.offline import verify

AMQP_SINCE = "2026-11-19"
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


@pytest.mark.parametrize(
    "directory", [each for each in DIRECTORIES if each.name >= AMQP_SINCE], indirect=True
)
def test_exchanges_queues_and_messages_of_amqp_are_there(directory: Path) -> None:
    with Mortal(directory, amqp=True) as server:
        parameters = pika.ConnectionParameters("127.0.0.1", server.amqp[1])
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.basic_publish("shop", "orders.old", b"by the old binding")
            found = [channel.basic_get("mails", auto_ack=True) for _ in range(3)]

    assert [body for _, _, body in found] == [b"waits", b"by the old binding", None]
    method, properties, _ = found[0]
    assert (method.exchange, method.routing_key) == ("shop", "orders.new")
    assert (properties.message_id, properties.priority) == ("m", 1)
    with mainstem.open(directory) as stem:
        assert stem.topics.show("__mainstem_delayed").events == 1


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
