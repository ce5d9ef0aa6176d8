"""Groups from the command line."""

import json

import pytest
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit


@pytest.fixture
def read_by_billing(run: Run) -> None:
    run("pub", "orders", *"01234")
    run("sub", "orders", "-g", "billing", "-c", "2")


@pytest.mark.usefixtures("read_by_billing")
def test_groups_are_listed_with_their_lag(run: Run) -> None:
    (row,) = (json.loads(line) for line in run("group", "ls").lines)

    assert row.pop("behind_ms") >= 0
    assert row == {
        "group": "billing",
        "state": "empty",
        "members": 0,
        "topics": ["orders"],
        "lag": 3,
    }
    assert run("group", "ls", terminal=True).lines[1].split()[:5] == [
        *("billing", "empty", "0", "orders", "3")
    ]


@pytest.mark.usefixtures("read_by_billing")
def test_lag_is_shown_by_partition(run: Run) -> None:
    (row,) = (json.loads(line) for line in run("group", "lag", "billing").lines)

    assert (row["topic"], row["partition"]) == ("orders", 0)
    assert (row["cursor"], row["tail"], row["lag"]) == (2, 5, 3)
    assert [json.loads(line)["lag"] for line in run("group", "lag").lines] == [3]


def test_lag_is_shown_in_time_too(run: Run) -> None:
    run("pub", "orders", "-J", stdin=b'{"payload": "old", "ts": 1000}\n')
    run("group", "seek", "billing", "orders", "--to", "beginning", "--yes")

    behind_ms = json.loads(run("group", "lag", "billing").out)["behind_ms"]

    assert behind_ms > 50 * 365 * 86_400_000
    assert "BEHIND" in run("group", "lag", "billing", terminal=True).lines[0]


@pytest.mark.usefixtures("read_by_billing")
def test_a_group_is_shown_with_its_cursors(run: Run) -> None:
    (line,) = run("group", "show", "billing").lines

    assert json.loads(line)["lag"] == 3
    assert run("group", "show", "billing", terminal=True).lines[0] == (
        "billing: empty, 0 members, lag 3"
    )
    assert run("group", "show", "nobody").code == Exit.NOT_FOUND


@pytest.mark.usefixtures("read_by_billing")
@pytest.mark.parametrize(
    ("to", "rest"), [("beginning", "01234"), ("end", ""), ("4", "4"), ("-2", "34"), ("@0", "01234")]
)
def test_seeking_moves_the_cursor(run: Run, to: str, rest: str) -> None:
    sought = run("group", "seek", "billing", "orders", "--to", to, "--yes")

    assert sought.code == 0
    assert json.loads(sought.out)["lag"] == len(rest)
    assert run("sub", "orders", "-g", "billing", "-e", "-D", "").out == rest.encode()


@pytest.mark.usefixtures("read_by_billing")
def test_a_dry_run_shows_the_same_and_moves_nothing(run: Run) -> None:
    code, out, err = run("group", "seek", "billing", "orders", "--to", "end", "--dry-run")

    assert (code, err) == (0, "mainstem: dry run: nothing was moved\n")
    assert json.loads(out)["lag"] == 0
    assert json.loads(run("group", "lag", "billing").out)["lag"] == 3


@pytest.mark.usefixtures("read_by_billing")
def test_without_a_person_nothing_is_moved_or_forgotten_unasked(run: Run) -> None:
    assert run("group", "seek", "billing", "orders", "--to", "end").code == Exit.REFUSED
    assert run("group", "rm", "billing").code == Exit.REFUSED
    assert json.loads(run("group", "lag", "billing").out)["lag"] == 3


@pytest.mark.usefixtures("read_by_billing")
def test_a_group_is_forgotten(run: Run) -> None:
    assert run("group", "rm", "billing", "--yes").code == 0
    assert run("group", "ls").out == b""
    assert run("sub", "orders", "-g", "billing", "-c", "1").out == b"0\n"
