"""Queues and dead letters from the command line."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.dead_letters import reject_all
from tests.heads.kafka.share_member import Sharer, configure
from tests.in_process_server import serving

import mainstem
from mainstem.cli.exit_codes import Exit
from mainstem.client.embedded.queues import EmbeddedQueues
from mainstem.core.dead_letters import topic_of
from mainstem.core.errors import StorageFull


@pytest.fixture
def directory(own_directory: Path) -> Path:
    """A directory with a queue of three events, one of them dead and one that failed once."""
    path = own_directory / "mainstem-data"
    with mainstem.open(path) as stem:
        stem.publish_many("orders", ["bad", "once", "good"])
        with stem.queue("orders", name="emails") as queue:
            bad, once, _ = queue.poll_many(3)
            bad.reject("no such customer")
            once.nack()
    return path


@pytest.mark.usefixtures("directory")
def test_queues_are_listed(run: Run) -> None:
    (row,) = (json.loads(line) for line in run("queue", "ls").lines)

    assert (row["topic"], row["queue"], row["ready"], row["out"]) == ("orders", "emails", 2, 0)
    assert run("queue", "ls", terminal=True).lines[1].split()[:4] == ["orders", "emails", "2", "0"]


@pytest.mark.usefixtures("directory")
def test_a_queue_is_shown(run: Run) -> None:
    shown = json.loads(run("queue", "show", "orders", "emails").out)

    assert (shown["lock_ms"], shown["max_deliveries"], shown["order"]) == (30_000, 5, "none")
    assert shown["partitions"][0]["start"] == 1
    assert run("queue", "show", "orders", "emails", terminal=True).lines[0] == (
        "emails of orders: 2 ready, 0 out; locked for 30 s, 5 deliveries, order none"
    )
    assert run("queue", "show", "orders", "nobody").code == Exit.NOT_FOUND
    assert run("queue", "show", "nothing", "emails").code == Exit.NOT_FOUND


def test_share_groups_of_a_server_are_listed_and_shown(directory: Path, run: Run) -> None:
    with serving(directory) as address:
        member = Sharer(address, "orders")
        configure(member.peer, "orders", "share.auto.offset.reset", "earliest")
        member.joined().fetch(max_records=2, mode=1)

        rows = [json.loads(line) for line in run("queue", "ls").lines]
        shown = json.loads(run("queue", "show", "orders", "orders").out)
        nobody = run("queue", "show", "orders", "nobody")
        member.close()

    counts = {row["queue"]: (row["ready"], row["out"], row["consumers"]) for row in rows}
    assert counts == {"emails": (2, 0, 0), "orders": (1, 2, 1)}
    assert shown["consumers"] == {"ann": 2}
    assert nobody.code == Exit.NOT_FOUND


@pytest.mark.usefixtures("directory")
def test_looking_into_a_queue_takes_nothing(run: Run) -> None:
    for _ in range(2):
        rows = [json.loads(line) for line in run("queue", "peek", "orders", "emails").lines]

        assert [(row["payload"], row["deliveries"]) for row in rows] == [("once", 1), ("good", 0)]
    assert len(run("queue", "peek", "orders", "emails", "-n", "1").lines) == 1
    assert "once" in run("queue", "peek", "orders", "emails", terminal=True).lines[1]


@pytest.mark.usefixtures("directory")
def test_a_queue_is_forgotten(run: Run) -> None:
    assert run("queue", "rm", "orders", "emails").code == Exit.REFUSED
    assert run("queue", "rm", "orders", "emails", "--yes").code == 0
    assert run("queue", "ls").out == b""


@pytest.mark.parametrize("served", [False, True], ids=["a directory", "a server"])
def test_events_that_wait_are_purged_after_a_question(
    directory: Path, run: Run, typed: Callable[[str], None], *, served: bool
) -> None:
    with serving(directory) if served else nullcontext():
        assert run("queue", "purge", "emails").code == Exit.REFUSED
        typed("y\n")
        asked = run("queue", "purge", "emails", stdin=None)
        again = run("queue", "purge", "orders", "emails", "--yes")

        assert "settle 2 events that wait in queue emails of orders" in asked.err
        assert json.loads(asked.out) == {"topic": "orders", "queue": "emails", "purged": 2}
        assert json.loads(again.out)["purged"] == 0
        assert run("queue", "peek", "emails").out == b""
        assert len(run("sub", "orders", "-e").lines) == 3


@pytest.mark.parametrize("served", [False, True], ids=["a directory", "a server"])
def test_events_that_wait_are_moved_as_they_are_and_in_order(
    own_directory: Path, run: Run, *, served: bool
) -> None:
    path = own_directory / "mainstem-data"
    with mainstem.open(path) as stem:
        stem.topics.create("later", partitions=3)
        stem.topics.create("orders")
        stem.queue("orders", name="emails").close()
        for number in range(2_500):
            stem.publish("orders", "x", key=f"k{number % 7}", headers={"mainstem-id": str(number)})
    with serving(path) if served else nullcontext():
        dry = run("queue", "move", "emails", "later")
        first = run("queue", "move", "emails", "later", "--max", "3", "--yes")
        rest = run("queue", "move", "orders", "emails", "later", "--yes")
        none = run("queue", "move", "emails", "later", "--yes")
        found = [json.loads(line) for line in run("sub", "later", "-e", "-J").lines]

    assert (dry.code, "move 2,500 events" in dry.err) == (Exit.REFUSED, True)
    moved = [json.loads(each.out)["moved"] for each in (first, rest, none)]
    assert moved == [3, 2_497, 0]
    numbers = [int(each["headers"][1]) for each in found]
    assert sorted(numbers) == list(range(2_500))
    for key in {each["key"] for each in found}:
        of_key = [n for n, each in zip(numbers, found, strict=True) if each["key"] == key]
        assert of_key == sorted(of_key)


@pytest.mark.usefixtures("directory")
def test_what_cannot_be_moved_stays(run: Run) -> None:
    for to, code in (
        ("nothing", Exit.NOT_FOUND),
        ("orders", Exit.REFUSED),
        ("__mainstem_cursors", Exit.NOT_FOUND),
    ):
        assert run("queue", "move", "emails", to, "--yes").code == code, to
    assert len(run("queue", "peek", "emails").lines) == 2


def test_a_queue_is_found_by_its_name_where_that_tells_which(directory: Path, run: Run) -> None:
    with mainstem.open(directory) as stem:
        for topic in ("orders", "bills"):
            stem.topics.create(topic, exist_ok=True)
            stem.queue(topic, name="both").close()

    several, unknown = run("queue", "show", "both"), run("queue", "show", "orders")

    assert json.loads(run("queue", "show", "emails").out)["topic"] == "orders"
    assert (several.code, "bills, orders" in several.err) == (Exit.REFUSED, True)
    assert (unknown.code, "both, emails" in unknown.err) == (Exit.NOT_FOUND, True)


@pytest.mark.usefixtures("directory")
def test_dead_letters_are_listed_and_shown_with_their_story(run: Run) -> None:
    (row,) = (json.loads(line) for line in run("dead", "ls").lines)
    assert row == {"topic": "orders.dead", "letters": 1, "of": 1}

    (letter,) = (json.loads(line) for line in run("dead", "show", "orders").lines)
    assert (letter["payload"], letter["reason"]) == ("bad", "no such customer")
    assert (letter["from"], letter["queue"], letter["deliveries"]) == ("orders[0]@0", "emails", 1)
    assert run("dead", "show", "nothing").code == Exit.NOT_FOUND


@pytest.mark.usefixtures("directory")
def test_redriving_publishes_the_event_as_it_was_and_only_once(run: Run) -> None:
    dry = run("dead", "redrive", "orders", "--dry-run")
    assert json.loads(dry.out) == {"to": "orders", "letters": 1}
    assert json.loads(run("dead", "ls").out)["letters"] == 1

    done = run("dead", "redrive", "orders.dead", "--rate", "1000")
    assert json.loads(done.out) == {"to": "orders", "letters": 1}
    assert run("dead", "redrive", "orders").out == b""

    assert json.loads(run("dead", "ls").out)["letters"] == 0
    last = json.loads(run("sub", "orders", "-e", "-J").lines[-1])
    assert (last["payload"], last["headers"]) == ("bad", [])


def test_redriving_puts_an_event_where_it_was(directory: Path, run: Run) -> None:
    with mainstem.open(directory) as stem:
        stem.topics.create("bills", partitions=4)
        for number in range(4):
            stem.publish("bills", str(number), key="same", partition=number)
        reject_all(stem, "bills", "no such customer")

    assert run("dead", "redrive", "bills").code == 0

    rows = [json.loads(line) for line in run("sub", "bills", "-e", "-J").lines]
    places = sorted((row["partition"], row["payload"]) for row in rows)
    assert places == [(number, str(number)) for number in range(4) for _ in range(2)]


@pytest.mark.parametrize("topic", ["x" * 244, "x" * 245, "x" * 249], ids=len)
def test_dead_letters_are_found_by_the_name_of_their_topic_however_long_it_is(
    directory: Path, run: Run, topic: str
) -> None:
    with mainstem.open(directory) as stem:
        stem.publish(topic, "bad")
        reject_all(stem, topic, "no such customer")

    listed = [json.loads(line)["topic"] for line in run("dead", "ls").lines]
    assert sorted(listed) == ["orders.dead", topic_of(topic)]
    assert json.loads(run("dead", "show", topic).out)["reason"] == "no such customer"
    for name in (topic, topic_of(topic)):
        dry = run("dead", "redrive", name, "--dry-run")
        assert json.loads(dry.out) == {"to": topic, "letters": 1}
    assert run("dead", "redrive", topic).code == 0
    assert run("sub", topic, "-e").lines == ["bad", "bad"]


def test_redriving_into_a_topic_that_has_fewer_partitions_by_now(directory: Path, run: Run) -> None:
    with mainstem.open(directory) as stem:
        stem.topics.create("bills", partitions=2)
        stem.publish("bills", "1", partition=1)
        reject_all(stem, "bills", "no such customer")
        stem.topics.delete("bills")
        stem.topics.create("bills", partitions=1)

    assert run("dead", "redrive", "bills").code == 0

    assert run("sub", "bills", "-e").lines == ["1"]


@pytest.mark.usefixtures("directory")
def test_redriving_elsewhere(run: Run) -> None:
    assert run("dead", "redrive", "orders", "--to", "later").code == 0

    assert run("sub", "later", "-e").lines == ["bad"]


@pytest.mark.usefixtures("directory")
def test_a_redrive_to_nowhere_or_at_no_rate_is_refused(run: Run) -> None:
    assert run("dead", "redrive", "orders", "--to", "").code == Exit.REFUSED
    for rate in ("nan", "inf", "0", "-1"):
        assert run("dead", "redrive", "orders", "--rate", rate).code == Exit.USAGE

    assert json.loads(run("dead", "ls").out)["letters"] == 1


@pytest.fixture
def all_rejected(directory: Path) -> None:
    with mainstem.open(directory) as stem:
        reject_all(stem)


@pytest.mark.usefixtures("all_rejected")
def test_an_interrupted_redrive_loses_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = mainstem.EmbeddedStem.publish
    published: list[object] = []

    def interrupted(self: mainstem.EmbeddedStem, topic: str, value: str, **rest: object) -> object:
        if len(published) == 1:
            raise KeyboardInterrupt
        published.append(publish(self, topic, value, **rest))  # type: ignore[arg-type]
        return published[-1]

    with monkeypatch.context() as patch:
        patch.setattr(mainstem.EmbeddedStem, "publish", interrupted)
        stopped = run("dead", "redrive", "orders", "--to", "again")
        assert stopped.code == 130
        assert json.loads(stopped.out) == {"to": "again", "letters": 1}

    assert json.loads(run("dead", "ls").out)["letters"] == 2
    run("dead", "redrive", "orders", "--to", "again")
    assert sorted(run("sub", "again", "-e").lines) == ["bad", "good", "once"]


def test_letters_are_looked_at_in_pieces(
    directory: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("dead", "redrive", "orders")
    with mainstem.open(directory) as stem:
        stem.publish_many("orders", [str(number) for number in range(150)])
        reject_all(stem)
    asked: list[int] = []
    peek = EmbeddedQueues.peek

    def count(self: EmbeddedQueues, topic: str, name: str, limit: int, **rest: object) -> object:
        asked.append(limit)
        return peek(self, topic, name, limit, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(EmbeddedQueues, "peek", count)
    shown = run("dead", "show", "orders", "-n", "3")
    dry = run("dead", "redrive", "orders", "--dry-run")

    assert len(shown.lines) == 3
    assert json.loads(dry.out) == {"to": "orders", "letters": 153}
    assert asked == [3, 100, 100, 100]


@pytest.mark.usefixtures("all_rejected")
def test_a_redrive_that_finds_the_disk_full_says_where_and_what_was_done(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = mainstem.EmbeddedStem.publish

    def full(self: mainstem.EmbeddedStem, topic: str, value: bytes, **rest: object) -> object:
        if value == b"once":
            raise StorageFull("no space is left")
        return publish(self, topic, value, **rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(mainstem.EmbeddedStem, "publish", full)
        stopped = run("dead", "redrive", "orders", "--to", "again")

    assert stopped.code == Exit.REFUSED
    assert "orders.dead[0]@1" in stopped.err
    assert "no space is left" in stopped.err
    assert json.loads(stopped.out) == {"to": "again", "letters": 1}
    assert json.loads(run("dead", "ls").out)["letters"] == 2


def test_a_letter_that_cannot_be_redriven_holds_up_no_other(directory: Path, run: Run) -> None:
    with mainstem.open(directory) as stem:
        stem.publish("orders.dead", "whence")
        reject_all(stem)

    for done in ([{"to": "orders", "letters": 3}], []):
        dry = run("dead", "redrive", "orders", "--dry-run")
        ended = run("dead", "redrive", "orders")

        for each in (dry, ended):
            assert each.code == Exit.REFUSED
            assert "orders.dead[0]@1" in each.err
            assert [json.loads(line) for line in each.lines] == done
        assert [json.loads(line)["payload"] for line in run("dead", "show", "orders").lines] == [
            "whence"
        ]


@pytest.mark.usefixtures("directory")
def test_a_letter_that_is_moved_among_dead_letters_keeps_its_story(run: Run) -> None:
    assert run("dead", "redrive", "orders", "--to", "later.dead").code == 0

    assert json.loads(run("dead", "show", "later").out)["reason"] == "no such customer"
    assert json.loads(run("dead", "redrive", "later").out) == {"to": "orders", "letters": 1}


@pytest.mark.usefixtures("directory")
def test_dead_letters_are_dropped_when_asked_for(run: Run) -> None:
    assert run("dead", "drop", "orders").code == Exit.REFUSED
    assert run("dead", "drop", "orders", "--yes").code == 0

    assert json.loads(run("dead", "ls").out) == {"topic": "orders.dead", "letters": 0, "of": 0}


@pytest.mark.usefixtures("directory")
def test_a_letter_that_does_not_say_where_it_came_from_needs_to(run: Run) -> None:
    run("pub", "other.dead", "x")

    refused = run("dead", "redrive", "other")

    assert refused.code == Exit.REFUSED
    assert "--to" in refused.err
    assert json.loads(run("dead", "show", "other").out)["reason"] is None
    assert run("dead", "redrive", "other", "--to", "orders").code == 0
