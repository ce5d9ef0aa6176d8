"""``mainstem pipeline``: checks before Spark starts, and the status of pipelines."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.cli.conftest import Run

from mainstem import pipelines as p
from mainstem.pipelines.errors import DamagedState
from mainstem.pipelines.state.table_state import Failure, Freshness, StateDirectory, TableStatus

SHOP = """
from mainstem import pipelines as p
orders = p.sql("select 1", source="orders", schema="id string", sink=p.sqlite("base.db", "orders"))
"""


@pytest.fixture(autouse=True)
def shop(own_directory: Path) -> None:
    Path("shop.py").write_text(SHOP)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "choose --stream, --batch --to ..., or --replay --into NAME"),
        (["--stream", "--to", "2026-11-15"], "are for --batch and --replay"),
        (["--stream", "--complete"], "are for --batch and --replay"),
        (["--replay"], "add --into NAME"),
        (["--batch", "--from", "2026-11-15"], "use --from and --into NAME together"),
        (["--batch", "--into", "copy"], "use --from and --into NAME together"),
        (["--replay", "--into", "a/b"], "must be letters, digits and _"),
    ],
)
def test_ways_to_run_that_mean_nothing_are_refused(
    run: Run, arguments: list[str], told: str
) -> None:
    code, _, err = run("pipeline", "run", "shop.py", *arguments)

    assert code == 2
    assert told in err


def test_a_pipeline_needs_a_server(run: Run) -> None:
    code, _, err = run("pipeline", "run", "shop.py", "--stream")

    assert code == 6
    assert "start one (mainstem serve)" in err


@pytest.mark.parametrize(
    ("listens", "why"), [(False, "Connection refused; check that "), (True, "")]
)
def test_who_does_not_answer_as_a_server_does_is_told_before_spark_starts(
    run: Run, listens: bool, why: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = "{}:{}".format(*found.getsockname())
        if not listens:
            found.close()

        code, _, err = run("pipeline", "run", "shop.py", "--stream", "--at", address)

    assert code == 5
    assert err.startswith(f"mainstem: no answer from {address}: {why}")
    assert err.count("\n") == 1


def test_a_file_that_cannot_be_loaded_is_told_at_once(run: Run) -> None:
    code, _, err = run("pipeline", "run", "nothing.py", "--stream")

    assert code == 6
    assert "there is no pipeline file nothing.py" in err


def test_nothing_ran_yet(run: Run) -> None:
    assert run("pipeline", "ls") == (0, b"", "")
    assert "no pipeline has run here" in run("pipeline", "ls", terminal=True).err
    assert "no run of pipeline 'shop' is known" in run("pipeline", "show", "shop").err


def test_how_a_table_stands_is_listed_with_its_last_error(run: Run) -> None:
    failure = Failure("not JSON", 1_794_729_600_000, "topic orders, partition 0, offset 7")
    StateDirectory(Path("mainstem-pipelines/shop/orders")).save_status(
        TableStatus(
            "failed", batch=3, events=40, bad=1, failure=failure, sink="SQLite table orders"
        )
    )

    (row,) = map(json.loads, run("pipeline", "ls").lines)
    (shown,) = map(json.loads, run("pipeline", "show", "shop").lines)

    assert (row["pipeline"], row["table"], row["state"]) == ("shop", "orders", "failed")
    assert (row["events"], row["bad"], row["lag"]) == (40, 1, None)
    assert shown["failure"]["event"] == "topic orders, partition 0, offset 7"


def test_the_freshness_of_a_table_is_shown_and_among_the_metrics(run: Run) -> None:
    fresh = Freshness(changes=1200, p50_ms=120, p99_ms=480, last_ms=130, at_ms=1)
    StateDirectory(Path("mainstem-pipelines/shop/orders")).save_status(
        TableStatus("stopped", events=1300, bad=2, freshness=fresh)
    )

    shown = run("pipeline", "show", "shop", terminal=True).out.decode()
    page = run("pipeline", "metrics").out.decode()

    assert "p50 120 ms, p99 480 ms (of 1,200 changes), last batch 130 ms" in shown
    labels = 'pipeline="shop",table="orders"'
    assert f'mainstem_pipeline_freshness_seconds{{{labels},quantile="0.99"}} 0.48\n' in page
    assert f"mainstem_pipeline_freshness_last_seconds{{{labels}}} 0.13\n" in page
    assert f"mainstem_pipeline_events_total{{{labels}}} 1300\n" in page


def test_metrics_are_served_until_stopped(own_directory: Path) -> None:
    StateDirectory(own_directory / "mainstem-pipelines/shop/orders").save_status(
        TableStatus("failed", events=7)
    )
    command = [sys.executable, "-m", "mainstem", "pipeline", "metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-3].rstrip(";")
        with urlopen(address) as answer:
            page = answer.read().decode()
        with pytest.raises(HTTPError, match="404"):
            urlopen(address.removesuffix("metrics"))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()

    assert 'mainstem_pipeline_table_failed{pipeline="shop",table="orders"} 1\n' in page
    assert rest == ""


def test_a_run_whose_process_is_gone_has_failed(run: Run) -> None:
    StateDirectory(Path("mainstem-pipelines/shop/orders")).save_status(
        TableStatus("running", pid=2**22 + 1)
    )

    (row,) = map(json.loads, run("pipeline", "ls").lines)

    assert row["state"] == "failed"


def test_copies_that_are_not_there_are_neither_compared_nor_swapped(run: Run) -> None:
    assert run("pipeline", "diff", "shop.py", "fixed").code == 6
    assert "say with what to compare" in run("pipeline", "diff", "shop.py").err
    told = run("pipeline", "diff", "shop.py", "--source", "postgres://127.0.0.1:1/x").err
    assert "no table of 'shop' is made by apply_changes" in told
    swapped = run("pipeline", "swap", "shop.py", "fixed", "--yes")

    assert swapped.code == 6
    assert "there is no replay of 'shop' into 'fixed'" in swapped.err


def test_the_sample_pipeline_can_be_loaded() -> None:
    import mainstem.cli  # noqa: PLC0415

    file = Path(mainstem.cli.__file__).with_name("demo") / "pipeline" / "tables.py"

    assert [each.name for each in p.load(file, "sample").tables] == ["views", "revenue", "readings"]


DAMAGED = Path("mainstem-pipelines/shop/refunds/standing.json")


@pytest.fixture
def one_is_damaged() -> None:
    StateDirectory(Path("mainstem-pipelines/shop/orders")).save_status(
        TableStatus("stopped", events=40)
    )
    StateDirectory(Path("mainstem-pipelines/shop/refunds")).save_status(
        TableStatus("stopped", events=7)
    )
    DAMAGED.write_bytes(DAMAGED.read_bytes()[:20])


@pytest.mark.usefixtures("one_is_damaged")
def test_a_damaged_state_file_is_named_and_the_other_tables_are_listed(run: Run) -> None:
    ran = run("pipeline", "ls")
    rows = [json.loads(line) for line in ran.lines]

    assert [(row["table"], row["state"], row["events"]) for row in rows] == [
        ("orders", "stopped", 40),
        ("refunds", "damaged", 0),
    ]
    assert f"{DAMAGED.resolve()} is damaged: " in ran.err
    assert "--replay --into NAME" in ran.err
    assert ran.code == 0


@pytest.mark.usefixtures("one_is_damaged")
def test_a_damaged_state_file_is_shown_with_the_other_tables_of_its_pipeline(run: Run) -> None:
    ran = run("pipeline", "show", "shop")
    shown = {each["table"]: each for each in map(json.loads, ran.lines)}

    assert shown["orders"]["events"] == 40
    assert str(DAMAGED.resolve()) in shown["refunds"]["failure"]["reason"]


@pytest.mark.parametrize(
    ("file", "content", "read"),
    [
        ("standing.json", b"\0" * 300, StateDirectory.status),
        ("standing.json", b'{"state": "asleep"}', StateDirectory.status),
        ("schemas.json", b'{"orders": ', StateDirectory.schemas),
        ("identity", b"", StateDirectory.identity),
    ],
)
def test_a_run_refuses_damaged_state_names_the_file_and_says_what_to_do(
    file: str, content: bytes, read: Callable[[StateDirectory], object]
) -> None:
    place = StateDirectory(Path("mainstem-pipelines/shop/orders"))
    place.directory.mkdir(parents=True)
    (place.directory / file).write_bytes(content)

    with pytest.raises(DamagedState) as refused:
        read(place)

    assert str(refused.value).startswith(f"{place.directory / file} is damaged: ")
    assert "--replay --into NAME" in str(refused.value)
    assert len(str(refused.value)) < 800


def test_a_file_is_checked_without_spark(run: Run) -> None:
    good = run("pipeline", "check", "shop.py", "--no-spark", "--format", "json")
    Path("shop.py").write_text(SHOP.replace('source="orders"', 'source="or/ders"'))
    bad = run("pipeline", "check", "shop.py", "--no-spark", "--format", "json")

    assert good.code == 0
    (row,) = json.loads(good.out)
    assert (row["table"], row["sink"]) == ("orders", "SQLite table orders in base.db")
    assert bad.code == 1
    assert "cannot name a topic" in json.loads(bad.out)[0]["error"]
