"""Topics from the command line."""

import json
from collections.abc import Callable

import pytest
from tests.cli.conftest import Ran, Run

from mainstem.cli.exit_codes import Exit


def shown(ran: Ran) -> dict[str, object]:
    (line,) = ran.lines
    document: dict[str, object] = json.loads(line)
    return document


def settings(run: Run, topic: str) -> dict[str, object]:
    found = shown(run("topic", "show", topic))["settings"]
    assert isinstance(found, dict)
    return found


def test_a_topic_is_created_with_its_settings(run: Run) -> None:
    created = run(
        "topic",
        "create",
        "orders",
        *("--partitions", "4", "--durability", "disk", "--retention", "7d"),
        *("--segment-bytes", "64MiB", "--set", "tombstone=1h", "--compact"),
        *("--compact-share", "0.2", "--compact-within", "1m"),
    )

    assert created.code == 0
    assert len(shown(created)["partitions"]) == 4  # type: ignore[arg-type]
    assert settings(run, "orders") == {
        "partitions": 4,
        "durability": "disk",
        "overload": "buffer",
        "max_backlog": None,
        "hold_ms": 5000,
        "retention_ms": 604_800_000,
        "retention_bytes": None,
        "delete_acked": False,
        "compact": True,
        "tombstone_ms": 3_600_000,
        "compact_share": 0.2,
        "compact_after_ms": 0,
        "compact_within_ms": 60_000,
        "segment_bytes": 64 << 20,
        "segment_ms": None,
        "max_batch_bytes": 1_048_588,
        "validate": None,
        "expire": True,
        "timestamps": "created",
        "max_ahead_ms": None,
        "max_behind_ms": None,
        "compression": "producer",
    }


def test_a_topic_is_created_once(run: Run) -> None:
    run("topic", "create", "t")

    assert run("topic", "create", "t").code == Exit.REFUSED
    assert run("topic", "create", "t", "--if-not-exists").code == 0


def test_topics_are_listed_by_pattern(run: Run) -> None:
    for name in ("orders.eu", "orders.us", "other"):
        run("pub", name, "1")

    rows = [json.loads(line) for line in run("topic", "ls", "orders.*").lines]

    assert [(row["topic"], row["partitions"], row["events"]) for row in rows] == [
        ("orders.eu", 1, 1),
        ("orders.us", 1, 1),
    ]
    assert len(json.loads(run("topic", "ls", "--format", "json").out)) == 3


def test_a_person_sees_tables(run: Run) -> None:
    run("pub", "orders", "1", "2")

    listed = run("topic", "ls", terminal=True).lines
    detail = run("topic", "show", "orders", terminal=True).lines

    assert listed[0].split() == [
        *("TOPIC", "PARTITIONS", "EVENTS", "SIZE", "DURABILITY", "RETENTION", "COMPACT")
    ]
    assert listed[1].split()[:3] == ["orders", "1", "2"]
    assert detail[0].startswith("orders: 2 events (")
    assert "PARTITION  START  TAIL  END" in detail[-2]


def test_nothing_to_list_says_what_to_do(run: Run) -> None:
    run("topic", "create", "t")
    run("topic", "rm", "t", "--yes")

    assert run("topic", "ls", terminal=True) == (
        0,
        b"",
        "mainstem: no topics here; mainstem topic create NAME makes one\n",
    )


def test_altering_changes_what_is_named_and_nothing_else(run: Run) -> None:
    run("topic", "create", "t", "--retention", "7d", "--durability", "disk")

    assert run("topic", "alter", "t", "--retention", "none", "--partitions", "2").code == 0

    after = settings(run, "t")
    assert (after["retention_ms"], after["partitions"]) == (None, 2)
    assert after["durability"] == "disk"


@pytest.mark.parametrize(
    "change", [("--partitions", "1"), ("--overload", "drop=oldest"), ("--set", "colour=red")]
)
def test_a_change_that_means_nothing_is_refused(run: Run, change: tuple[str, ...]) -> None:
    run("topic", "create", "t", "--partitions", "2")

    assert run("topic", "alter", "t", *change).code == Exit.REFUSED
    assert settings(run, "t")["partitions"] == 2


def test_without_a_person_nothing_is_deleted_unasked(run: Run) -> None:
    run("pub", "t", "1")

    code, _, err = run("topic", "rm", "t")

    assert code == Exit.REFUSED
    assert "add --yes" in err
    assert run("topic", "trim", "t", "--before", "end").code == Exit.REFUSED
    assert run("sub", "t", "-e").out == b"1\n"


def test_yes_deletes(run: Run) -> None:
    run("pub", "t", "1")
    run("pub", "u", "1")

    assert run("topic", "rm", "t", "u", "--yes") == (0, b"", "")
    assert run("topic", "show", "t").code == Exit.NOT_FOUND


def test_one_unknown_name_and_nothing_is_removed(run: Run) -> None:
    run("pub", "t", "1")

    assert run("topic", "rm", "t", "unknown", "--yes").code == Exit.NOT_FOUND
    assert run("topic", "show", "t").code == 0


@pytest.mark.parametrize(
    ("before", "kept"), [("2", "234"), ("-1", "4"), ("end", ""), ("beginning", "01234")]
)
def test_trimming_deletes_the_oldest(run: Run, before: str, kept: str) -> None:
    run("pub", "t", *"01234")

    code, _, err = run("topic", "trim", "t", "--before", before, "--yes")

    assert (code, err) == (0, f"mainstem: deleted {5 - len(kept)} events of t\n")
    assert run("sub", "t", "-e", "-D", "").out == kept.encode()


def test_a_person_is_asked(run: Run, typed: Callable[[str], None]) -> None:
    run("pub", "t", "1")

    typed("n\n")
    declined = run("topic", "rm", "t", stdin=None)
    typed("y\n")
    agreed = run("topic", "rm", "t", stdin=None)

    assert declined.code == Exit.ERROR
    assert "This will delete topic t with 1 events" in declined.err
    assert "nothing was changed" in declined.err
    assert agreed.code == 0
