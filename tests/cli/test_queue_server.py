"""Queues and dead letters of a server that runs, from the command line."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.cli.conftest import Run
from tests.cli.dead_letters import reject_all
from tests.in_process_server import serving

import mainstem
from mainstem.cli.commands import dead
from mainstem.cli.confirmation import confirm
from mainstem.cli.exit_codes import Exit
from mainstem.client.connected.stem import ConnectedStem

PATIENCE_S = 60

T = TypeVar("T")


@pytest.fixture
def directory(own_directory: Path) -> Path:
    """A directory with a queue: three dead letters, one event that failed once, one that waits."""
    path = own_directory / "mainstem-data"
    with mainstem.open(path) as stem:
        stem.publish_many("orders", ["bad", "worse", "worst", "once", "good"])
        with stem.queue("orders", name="emails") as queue:
            *dying, once, _ = queue.poll_many(5)
            for each in dying:
                each.reject("no such customer")
            once.nack()
    return path


@pytest.fixture
def address(directory: Path) -> Iterator[str]:
    """That directory, served."""
    with serving(directory) as found:
        yield found


@pytest.fixture(params=["by directory", "by address"])
def at(request: pytest.FixtureRequest, directory: Path, address: str) -> str:
    """The server, named in each way."""
    return address if request.param == "by address" else str(directory)


def letters(run: Run, at: str) -> int:
    found: int = json.loads(run("dead", "ls", "--at", at).out)["letters"]
    return found


def test_queues_of_a_server_are_listed_shown_looked_into_and_forgotten(run: Run, at: str) -> None:
    (row,) = (json.loads(line) for line in run("queue", "ls", "--at", at).lines)
    shown = json.loads(run("queue", "show", "orders", "emails", "--at", at).out)
    looked = [
        json.loads(line) for line in run("queue", "peek", "orders", "emails", "--at", at).lines
    ]

    assert (row["topic"], row["queue"], row["ready"], row["out"]) == ("orders", "emails", 2, 0)
    assert (shown["lock_ms"], shown["partitions"][0]["start"]) == (30_000, 3)
    assert [(each["payload"], each["deliveries"]) for each in looked] == [("once", 1), ("good", 0)]
    assert run("queue", "peek", "orders", "emails", "-n", "1", "--at", at).lines[0][:1] == "{"
    assert run("queue", "rm", "orders", "emails", "--at", at).code == Exit.REFUSED
    assert run("queue", "rm", "orders", "emails", "--yes", "--at", at).code == 0
    assert run("queue", "ls", "--at", at).out == b""


def test_what_a_server_does_not_have_is_not_found(run: Run, at: str) -> None:
    for deed in (("queue", "show"), ("queue", "peek"), ("queue", "rm")):
        for names in (("orders", "nobody"), ("nothing", "emails")):
            assert run(*deed, *names, "--at", at).code == Exit.NOT_FOUND
    assert run("dead", "show", "nothing", "--at", at).code == Exit.NOT_FOUND


def test_dead_letters_of_a_server_are_listed_and_shown_with_their_story(run: Run, at: str) -> None:
    shown = [json.loads(line) for line in run("dead", "show", "orders", "--at", at).lines]

    assert letters(run, at) == 3
    assert [each["payload"] for each in shown] == ["bad", "worse", "worst"]
    assert {each["reason"] for each in shown} == {"no such customer"}


def test_dead_letters_of_a_server_are_redriven_as_they_were_and_only_once(
    run: Run, at: str
) -> None:
    dry = run("dead", "redrive", "orders", "--dry-run", "--at", at)
    assert json.loads(dry.out) == {"to": "orders", "letters": 3}
    assert letters(run, at) == 3

    done = run("dead", "redrive", "orders", "--at", at)
    assert (done.code, json.loads(done.out)) == (0, {"to": "orders", "letters": 3})
    assert run("dead", "redrive", "orders", "--at", at).out == b""

    assert letters(run, at) == 0
    assert run("dead", "show", "orders", "--at", at).out == b""
    last = [json.loads(line) for line in run("sub", "orders", "-e", "-J", "--at", at).lines[-3:]]
    assert [(each["payload"], each["headers"]) for each in last] == [
        ("bad", []),
        ("worse", []),
        ("worst", []),
    ]


def test_dead_letters_of_a_server_are_dropped_when_asked_for(run: Run, at: str) -> None:
    assert run("dead", "drop", "orders", "--at", at).code == Exit.REFUSED
    assert run("dead", "drop", "orders", "--yes", "--at", at).code == 0

    found = json.loads(run("dead", "ls", "--at", at).out)
    assert (found["letters"], found["of"]) == (0, 0)


def test_letters_that_come_while_others_are_dropped_stay(
    run: Run, at: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after(deed: Callable[..., T]) -> Callable[..., T]:
        def done(*given: object, **named: object) -> T:
            found = deed(*given, **named)
            with mainstem.connect(address) as stem:
                stem.publish("orders.dead", "later")
            return found

        return done

    # One comes while it is asked, one while letters are taken.
    monkeypatch.setattr(dead, "confirm", after(confirm))
    monkeypatch.setattr(dead, "_taken", after(dead._taken))

    assert run("dead", "drop", "orders", "--yes", "--at", at).code == 0

    found = json.loads(run("dead", "ls", "--at", at).out)
    assert (found["letters"], found["of"]) == (2, 2)


def test_letters_that_cannot_be_redriven_stay_and_hold_up_no_other(run: Run, address: str) -> None:
    with mainstem.connect(address) as stem:
        stem.publish_many("orders.dead", [f"whence {number}" for number in range(20)])
        stem.queue("orders", name="emails").poll(PATIENCE_S).reject()  # type: ignore[union-attr]

    for done in ([{"to": "orders", "letters": 4}], []):
        ended = run("dead", "redrive", "orders", "--at", address)

        assert ended.code == Exit.REFUSED
        assert "--to" in ended.err
        assert [json.loads(line) for line in ended.lines] == done
        assert letters(run, address) == 20


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let Ctrl-C come when so many events were published."""
    publish, published = ConnectedStem.publish, list[object]()

    def interrupted(self: ConnectedStem, topic: str, value: str, **rest: object) -> object:
        if len(published) == after:
            raise KeyboardInterrupt
        published.append(publish(self, topic, value, **rest))  # type: ignore[arg-type]
        return published[-1]

    monkeypatch.setattr(ConnectedStem, "publish", interrupted)


def test_a_redrive_of_a_server_goes_on_where_it_was_also_in_its_directory_and_back(
    directory: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = str(directory)
    with serving(directory), monkeypatch.context() as patch:
        interrupt(patch, after=1)
        stopped = run("dead", "redrive", "orders", "--to", "again", "--at", at)

        assert (stopped.code, json.loads(stopped.out)) == (130, {"to": "again", "letters": 1})
        assert letters(run, at) == 2
    with mainstem.open(directory) as stem, stem.queue("orders.dead", name=dead.QUEUE) as queue:
        first = queue.poll(PATIENCE_S)
        assert first is not None
        first.ack()
    with serving(directory):
        assert letters(run, at) == 1
        run("dead", "redrive", "orders", "--to", "again", "--at", at)
        assert sorted(run("sub", "again", "-e", "--at", at).lines) == ["bad", "worst"]


def test_letters_do_not_die_of_interrupted_redrives(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(7):
        with monkeypatch.context() as patch:
            interrupt(patch, after=0)
            assert run("dead", "redrive", "orders", "--at", address).code == 130

    assert letters(run, address) == 3
    (row,) = (json.loads(line) for line in run("topic", "ls", "*.dead", "--at", address).lines)
    assert row["topic"] == "orders.dead"
    looked = json.loads(run("queue", "peek", "orders.dead", dead.QUEUE, "--at", address).lines[0])
    assert looked["deliveries"] == 7


def test_a_redrive_that_is_slower_than_locks_last_settles_all_the_same(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead, "_LOCK_S", 2.0)

    done = run("dead", "redrive", "orders", "--to", "again", "--rate", "0.4", "--at", address)

    assert (done.code, json.loads(done.out)) == (0, {"to": "again", "letters": 3})
    assert letters(run, address) == 0
    found = run("sub", "again", "-e", "--at", address).lines
    assert sorted(found) == ["bad", "worse", "worst"]


def test_a_redrive_that_is_killed_loses_nothing(run: Run, address: str) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("again", partitions=1)
        stem.publish_many("orders.dead", [str(number) for number in range(300)])
        redrive = [sys.executable, "-m", "mainstem", "dead", "redrive", "orders"]
        for _ in range(3):
            with (
                stem.subscribe("again", start="latest") as seen,
                subprocess.Popen([*redrive, "--to", "again", "--at", address]) as killed,
            ):
                try:
                    assert seen.poll(PATIENCE_S) is not None
                finally:
                    killed.kill()

        last = run("dead", "redrive", "orders", "--to", "again", "--at", address)
        found = Counter(event.text() for event in stem.subscribe("again", follow=False))

    assert last.code == 0
    assert letters(run, address) == 0
    assert set(found) == {"bad", "worse", "worst", *(str(number) for number in range(300))}
    # Each kill may come between publishing an event and settling its letter.
    assert found.total() <= 303 + 3


@pytest.mark.parametrize("topic", ["x" * 240, "x" * 249], ids=len)
def test_dead_letters_of_a_topic_with_a_long_name_are_redriven(
    run: Run, address: str, topic: str
) -> None:
    with mainstem.connect(address) as stem:
        stem.publish(topic, "bad")
        reject_all(stem, topic)

    assert json.loads(run("dead", "show", topic, "--at", address).out)["payload"] == "bad"
    assert run("dead", "redrive", topic, "--at", address).code == 0

    assert run("sub", topic, "-e", "--at", address).lines == ["bad", "bad"]
