"""``mainstem pipeline run`` as a command, in the Spark session of all tests."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.in_process_server import serving

import mainstem
from mainstem import pipelines as p
from mainstem.cli.commands import pipeline as pipeline_command
from mainstem.cli.exit_codes import Exit
from mainstem.cli.root import run as run_command
from mainstem.pipelines import session
from mainstem.pipelines.state.table_state import TableStatus, table_statuses

SHOP = """
    from mainstem import pipelines as p

    @p.table(source="orders", schema="id bigint", sink=p.delta("first"))
    def first(orders):
        return orders

    @p.table(source="first", sink=p.sqlite("base.db", "below"))
    def below(first):
        return first

    @p.table(source="orders", schema="id bigint", sink=p.delta("other"))
    def other(orders):
        return orders
"""
BROKEN_PIPE = 141
Command = Callable[..., int]


@pytest.fixture
def command(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    """Run the pipeline of a shop that has three orders."""
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(dedent(SHOP))
    # The command starts no other session, and leaves this one running.
    monkeypatch.setattr(pipeline_command, "start_spark", lambda *_, **__: spark)
    monkeypatch.setattr(session, "end_session", lambda _: None)
    monkeypatch.setenv("PYTHONPATH", "")
    with serving(None) as address:
        with mainstem.connect(address) as stem:
            stem.topics.create("orders", partitions=1)
            stem.publish_many("orders", [mainstem.Event(b'{"id": %d}' % n) for n in range(3)])
        how = ["--at", address, "--conf", "spark.log.level=ERROR"]
        yield lambda *more: run_command(["pipeline", "run", "shop.py", *how, *more])


def statuses() -> dict[str, TableStatus]:
    return {table: status for _, table, status in table_statuses(Path("mainstem-pipelines"))}


def ids(table: str) -> list[int]:
    (found,) = (each for each in p.load(Path("shop.py")).tables if each.name == table)
    rows = found.sink.read()
    return sorted(rows["id"].to_pylist()) if rows is not None else []


def test_only_the_tables_that_are_named_are_run(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--batch", "--only", "nothing") == Exit.REFUSED
    assert "there is no table 'nothing'" in capsys.readouterr().err

    assert command("--batch", "--only", "first", "--only", "below") == Exit.OK

    assert set(statuses()) == {"first", "below"}
    assert ids("below") == [0, 1, 2]


def test_a_pipe_gets_a_json_line_for_each_batch_and_no_progress_display(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--batch", "--only", "first", "--max-rows", "2") == Exit.OK

    told = capsys.readouterr()
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert [(each["table"], each["batch"], each["events"]) for each in lines] == [
        ("first", 0, 2),
        ("first", 1, 1),
    ]
    assert "mainstem: " not in told.err


def test_a_stream_whose_reader_has_left_stops_in_order(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = None
    # What could not be written is tried again when the pipe is closed.
    with (
        suppress(BrokenPipeError),
        os.fdopen(writing, "w") as pipe,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdout", pipe)
        code = command("--stream", "--only", "first")

    assert code == BROKEN_PIPE
    assert statuses()["first"].state == "stopped"
    assert ids("first") == [0, 1, 2]
