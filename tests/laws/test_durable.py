"""Laws of Durable: settled exactly once, for all waiters, in any order of calls."""

import threading

import pytest

from mainstem.core.errors import MainstemError, StorageFailed
from mainstem.log.commit.durable import AT_ONCE, Commit


def test_a_promise_kept_at_once_waits_for_nothing() -> None:
    told: list[MainstemError | None] = []

    AT_ONCE.then(told.append)

    assert AT_ONCE.done
    assert AT_ONCE.wait(0)
    assert told == [None]


def test_a_commit_that_is_not_settled_times_out_and_leaves_nothing_behind() -> None:
    commit = Commit()

    assert not commit.wait(0)
    assert not commit.wait(-1)

    assert not commit.done
    assert commit._calls == []


def test_all_who_wait_are_released_by_one_settling() -> None:
    commit = Commit()
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(commit.wait(30))) for _ in range(4)]
    for thread in threads:
        thread.start()

    commit.settle()
    for thread in threads:
        thread.join()

    assert results == [True] * 4


def test_calls_are_made_once_before_or_after_settling() -> None:
    commit = Commit()
    told: list[str] = []
    commit.then(lambda _: told.append("before"))

    commit.settle()
    commit.settle()
    commit.then(lambda _: told.append("after"))

    assert told == ["before", "after"]


def test_a_failed_commit_raises_for_everyone_and_stays_failed() -> None:
    commit = Commit()
    told: list[MainstemError | None] = []
    commit.then(told.append)
    failure = StorageFailed("the disk is gone")

    commit.settle(failure)
    commit.settle()

    assert told == [failure]
    for _ in range(2):
        with pytest.raises(StorageFailed, match="the disk is gone"):
            commit.wait()


def test_a_call_may_ask_the_commit_that_calls_it() -> None:
    commit = Commit()
    seen: list[bool] = []
    commit.then(lambda _: seen.append(commit.done and commit.wait(0)))

    commit.settle()

    assert seen == [True]


def test_a_call_that_fails_keeps_no_other_from_being_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: MainstemError | None) -> None:
        raise RecursionError("too deep")

    commit, told = Commit(), list[MainstemError | None]()
    commit.then(fail)
    commit.then(told.append)

    commit.settle()

    assert told == [None]
    assert [each.exc_info for each in caplog.records if each.levelname == "ERROR"]
    assert "too deep" in caplog.text
