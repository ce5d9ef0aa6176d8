"""The commands against a server: by address, and through the directory that it holds."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer
from tests.cli.conftest import Run
from tests.heads.server_process import until
from tests.in_process_server import serving

from mainstem.cli.exit_codes import Exit


@pytest.fixture
def address(own_directory: Path) -> Iterator[str]:
    """A server that holds ./mainstem-data."""
    with serving(own_directory / "mainstem-data") as where:
        yield where


def test_events_go_to_a_server_and_come_back(run: Run, address: str) -> None:
    published = run("pub", "orders", "-K:", "--at", address, stdin=b"a:1\nb:2\na:3\n")
    read = run("sub", "orders", "-e", "-K:", "--at", address)

    assert published.code == read.code == Exit.OK
    assert sorted(read.lines) == ["a:1", "a:3", "b:2"]


def test_a_directory_that_a_server_holds_is_reached_through_it(run: Run, address: str) -> None:
    assert run("pub", "orders", "1", "2").code == Exit.OK

    assert sorted(run("sub", "orders", "-e", "--at", address).lines) == ["1", "2"]
    assert sorted(run("sub", "orders", "-e").lines) == ["1", "2"]


def test_topics_are_looked_after_on_a_server(run: Run, address: str) -> None:
    made = run("topic", "create", "orders", "--partitions", "2", "--retention", "7d")
    run("pub", "orders", "-p", "1", *"0123456789")
    altered = run("topic", "alter", "orders", "--durability", "disk", "--partitions", "3")
    trimmed = run("topic", "trim", "orders", "--before", "-4", "--yes")
    listed = run("topic", "ls")
    shown = run("topic", "show", "orders", "--format", "table")
    removed = run("topic", "rm", "orders", "--yes")

    assert [each.code for each in (made, altered, trimmed, listed, shown, removed)] == [0] * 6
    row = msgspec.json.decode(listed.out)
    assert row["events"] == 4
    assert (row["partitions"], row["durability"], row["size_bytes"]) == (3, "disk", None)
    assert "orders: 4 events, id" in shown.out.decode()
    assert run("topic", "show", "orders").code == Exit.NOT_FOUND


def test_groups_are_looked_after_on_a_server(run: Run, address: str) -> None:
    run("topic", "create", "t", "--partitions", "1")
    run("pub", "t", *"0123")

    first = run("sub", "t", "-g", "g", "-c", "3")
    rest = run("sub", "t", "-g", "g", "-e")
    moved = run("group", "seek", "g", "t", "--to", "1", "--yes")
    lag = run("group", "lag", "g")
    again = run("sub", "t", "-g", "g", "-e")
    removed = run("group", "rm", "g", "--yes")

    assert (first.out, rest[:2]) == (b"0\n1\n2\n", (Exit.OK, b"3\n"))
    assert (moved.code, removed.code) == (Exit.OK, Exit.OK)
    assert msgspec.json.decode(lag.out)["lag"] == 3
    assert again.out == b"1\n2\n3\n"
    assert run("group", "show", "g").code == Exit.NOT_FOUND


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_is_shown_with_who_owns_what(run: Run, address: str, protocol: str) -> None:
    run("topic", "create", "t", "--partitions", "2")
    source = Consumer(
        {"bootstrap.servers": address, "group.id": "g", "group.protocol": protocol, "log_level": 0}
    )
    source.subscribe(["t"])
    until(lambda: len(source.assignment()) == 2, lambda: source.poll(0.1))

    shown = msgspec.json.decode(run("group", "show", "g").out)
    table = run("group", "show", "g", "--format", "table").out.decode()

    assert shown["state"] == "live"
    ((member, owned),) = shown["members"].items()
    assert owned == [{"topic": "t", "partition": number} for number in range(2)]
    assert [each["member"] for each in shown["lags"]] == [member] * 2
    assert table.count(member) == 2
    source.close()


def test_what_is_refused_over_the_network_ends_as_it_does_here(run: Run, address: str) -> None:
    run("topic", "create", "t")

    assert run("topic", "create", "t").code == Exit.REFUSED
    assert run("topic", "alter", "t", "--max-backlog", "5").code == Exit.REFUSED
    assert run("sub", "nowhere", "-e").code == Exit.NOT_FOUND
    assert run("sub", "t", "-o", "99", "-e").code == Exit.NOT_FOUND
    assert run("pub", "t", "-p", "99", "x").code == Exit.NOT_FOUND
    assert run("pub", "nowhere", "x", "--no-create").code == Exit.NOT_FOUND


def test_a_server_that_is_not_there_is_exit_code_5(run: Run) -> None:
    ran = run("topic", "ls", "--at", "127.0.0.1:1")

    assert ran.code == Exit.UNREACHABLE
    assert "127.0.0.1:1" in ran.err
    assert "mainstem serve" in ran.err
