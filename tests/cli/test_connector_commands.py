"""The commands of connectors against a real server with a real SQLite database."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.connectors.sqlite.databases import TABLE, SqliteFile
from tests.in_process_server import server
from tests.processes import wait_until

from mainstem.cli.exit_codes import Exit


@pytest.fixture(autouse=True)
def running(own_directory: Path) -> Iterator[None]:
    """A server of the default directory, so that commands need no ``--at``."""
    with server(own_directory / "mainstem-data"):
        yield


@pytest.fixture
def db(own_directory: Path) -> SqliteFile:
    found = SqliteFile(own_directory / "shop.db")
    found.execute(TABLE.format(t="orders"), "INSERT INTO orders VALUES (1, 1, '', '')")
    return found


def wait_for(run: Run, is_so: Callable[[dict[str, object]], bool]) -> dict[str, object]:
    """Wait until ``connector show`` tells what is expected."""
    found: dict[str, object] = {}

    def told() -> bool:
        found.update(json.loads(run("connector", "show", "shop", "--format", "json").out))
        return is_so(found)

    wait_until(told, lambda: str(found))
    return found


def ops(run: Run) -> list[str]:
    """Return the operations of the events of the table's topic."""
    return [json.loads(line)["op"] for line in run("sub", "shop.main.orders", "--exit").lines]


def test_a_connector_from_its_first_to_its_last_command(run: Run, db: SqliteFile) -> None:
    added = run("connector", "add", "shop", db.url, "--tables", "orders", "--format", "json")
    assert (added.code, json.loads(added.out)) == (0, {"tables": ["main.orders"]})
    again = run("connector", "add", "shop", db.url, "--tables", "orders")
    assert again.code != Exit.OK
    assert "there is a connector 'shop' already" in again.err
    wait_for(run, lambda it: it["phase"] == "following")

    (listed,) = json.loads(run("connector", "ls", "--format", "json").out)
    assert (listed["name"], listed["kind"], listed["phase"]) == ("shop", "sqlite", "following")
    shown = run("connector", "show", "shop", "--format", "table").out.decode()
    assert "shop (sqlite): following" in shown
    assert "tables = " in shown

    assert run("connector", "pause", "shop").code == 0
    paused = wait_for(run, lambda it: it["phase"] == "paused")
    db.execute("UPDATE orders SET v = 2")
    assert run("connector", "resume", "shop").code == 0
    wait_for(run, lambda it: it["position"] != paused["position"])
    assert ops(run) == ["r", "u"]

    assert run("connector", "snapshot", "shop", "main.orders").code == 0
    wait_until(lambda: ops(run) == ["r", "u", "r"], lambda: str(ops(run)))
    assert run("connector", "restart", "shop").code == 0
    wait_for(run, lambda it: it["phase"] == "following")
    assert run("connector", "restart", "shop", "--snapshot").code == 0
    wait_until(lambda: ops(run) == ["r", "u", "r", "t", "r"], lambda: str(ops(run)))

    assert run("connector", "rm", "shop").code == 0
    assert json.loads(run("connector", "ls", "--format", "json").out) == []
    assert db.execute("SELECT name FROM sqlite_master WHERE name LIKE '_mainstem%'") == []
    assert len(ops(run)) == 5


VERBS = ("show", "pause", "resume", "restart", "snapshot", "rm", "run")


@pytest.mark.parametrize("verb", VERBS)
def test_a_connector_that_is_not_there_is_named(run: Run, verb: str) -> None:
    result = run("connector", verb, "nowhere")

    assert result.code == Exit.NOT_FOUND
    assert "there is no connector 'nowhere'" in result.err
