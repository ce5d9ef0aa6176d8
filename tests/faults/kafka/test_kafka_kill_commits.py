"""kill -9 while a group commits: its cursors never go back."""

import contextlib
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from tests.faults.killable_server import Mortal, Repeated, Tally, die_often, fill, reader
from tests.long_runs import LONG

from mainstem.broker.broker import Broker

KILLS = 4

FORGETS_CURSORS = """
from mainstem.broker.state import State
from mainstem.log.commit.durable import AT_ONCE
real = State.change_cursors
def change_cursors(self, changes, now_ms):
    if all(change.value and change.value.offset % 50 == 0 for change in changes):
        return real(self, changes, now_ms)
    for change in changes:
        self.cursors.apply(change)
    return AT_ONCE
State.change_cursors = change_cursors
"""


class Committer:
    """Moves its group's cursors on, one step at a time, and looks where they are."""

    def __init__(self, address: str) -> None:
        self._source = reader(address, "lonely")
        self.acknowledged = self.tried = 0
        self.wrong: list[str] = []
        self.done = Tally()
        self._work = Repeated(self._commit)

    def finish(self) -> None:
        self._work.finish()
        self._source.close()

    def look(self, broker: Broker) -> None:
        """See whether a server that has died knows where the group was."""
        cursor = broker.cursor("lonely", "t", 0)
        offset = 0 if cursor is None else cursor.offset
        if not self.acknowledged <= offset <= self.tried:
            self.wrong.append(f"at {offset}, acknowledged {self.acknowledged}")

    def _commit(self) -> None:
        self.tried += 1
        place = TopicPartition("t", 0, self.tried)
        with contextlib.suppress(KafkaException):
            self._source.commit(offsets=[place], asynchronous=False)
            self.acknowledged = self.tried
            self.done.add()


def commit_through_kills(path: Path, flaw: str = "") -> list[str]:
    with Mortal(path, flaw=flaw) as server:
        # Cursors beyond the last event are put back to it after a crash.
        fill(server.address, 100_000 if LONG else 5_000, partitions=1)
        committer = Committer(server.address)
        try:
            die_often(server, committer.done, committer.look, seed=3, kills=KILLS, most=200)
        finally:
            committer.finish()
        return committer.wrong


@pytest.mark.timeout(0 if LONG else 120)
def test_a_committed_cursor_never_goes_back(tmp_path: Path) -> None:
    assert commit_through_kills(tmp_path) == []


def test_it_would_be_noticed_if_cursors_were_forgotten(tmp_path: Path) -> None:
    assert commit_through_kills(tmp_path, FORGETS_CURSORS) != []
