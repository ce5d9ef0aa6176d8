"""Answers that wait for many promises of durability."""

import pytest

from mainstem.core.errors import MainstemError, StorageFailed
from mainstem.heads.kafka.adapter.durable_replies import when_all
from mainstem.log.commit.durable import AT_ONCE, Commit

MANY = 10_000


@pytest.fixture
def told() -> list[MainstemError | None]:
    return []


def test_nothing_to_wait_for_is_durable_at_once(told: list[MainstemError | None]) -> None:
    when_all([], told.append)
    when_all([AT_ONCE] * MANY, told.append)

    assert told == [None, None]


def test_as_many_as_there_are_may_share_one_commit(told: list[MainstemError | None]) -> None:
    commit = Commit()
    when_all([commit] * MANY, told.append)
    assert told == []

    commit.settle()

    assert told == [None]


def test_the_last_one_decides_whatever_the_order(told: list[MainstemError | None]) -> None:
    commits = [Commit() for _ in range(3)]
    when_all([commits[0], AT_ONCE, *commits[1:]], told.append)

    for commit in (commits[2], commits[0]):
        commit.settle()
    assert told == []
    commits[1].settle()

    assert told == [None]


def test_the_first_error_is_told_and_nothing_after_it(told: list[MainstemError | None]) -> None:
    commits, error = [Commit() for _ in range(4)], StorageFailed("the disk is gone")
    when_all(commits, told.append)

    commits[0].settle()
    commits[2].settle(error)
    assert told == [error]
    commits[1].settle(StorageFailed("another"))
    commits[3].settle()

    assert told == [error]
