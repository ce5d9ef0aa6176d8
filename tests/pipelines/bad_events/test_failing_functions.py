"""A failing event stops at most its own table, and is named in the error."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.sample_events import bounded, forget_last_commit, ignore, rows_of, streaming

import mainstem
from mainstem import pipelines as p
from mainstem.cli.commands import pipeline as pipeline_command
from mainstem.cli.exit_codes import Exit
from mainstem.cli.root import run as run_command
from mainstem.pipelines import session
from mainstem.pipelines.errors import PipelineFailed, RunRefused
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.state.table_state import StateDirectory, TableStatus

SHOP = """
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    @F.udf("int")
    def inverted(amount):
        return 100 // amount

    @p.table(source="orders", schema="id string, amount int", BADsink=p.delta("fragile"))
    def fragile(orders):
        return orders.select("id", inverted("amount").alias("inverted"))

    @p.table(source="orders", schema="id string, amount int", sink=p.delta("sturdy"))
    def sturdy(orders):
        return orders

    @p.table(source="fragile", sink=p.sqlite("base.db", "below"))
    def below(fragile):
        return fragile
"""


def publish(address: str, *amounts: int | None) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("orders", partitions=1, exist_ok=True)
        first = stem.topics.show("orders").partitions[0].tail
        documents = [
            json.dumps({"id": f"o{first + n}", "amount": each}) for n, each in enumerate(amounts)
        ]
        stem.publish_many("orders", [mainstem.Event(each.encode()) for each in documents])


def shop(bad: str = "", text: str = SHOP) -> p.Pipeline:
    Path("shop.py").write_text(dedent(text.replace("BAD", bad)))
    return p.load(Path("shop.py"))


def status(table: str) -> TableStatus:
    found = StateDirectory(Path("state/shop") / table).status()
    assert found is not None
    return found


def ids(pipeline: p.Pipeline, table: str) -> list[str]:
    (found,) = (each for each in pipeline.tables if each.name == table)
    rows = found.sink.read()
    return sorted(row["id"] for row in rows.to_pylist()) if rows is not None else []


STOP = 'bad="stop", '


def test_a_table_that_fails_stops_alone_and_those_below_it_wait(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop(STOP)
    publish(address, 1, 0, 2)
    told: list[str] = []

    with pytest.raises(PipelineFailed, match="table 'fragile' stopped"):
        run(
            spark,
            pipeline,
            Request(address, Path("state")),
            ignore,
            threading.Event(),
            told.append,
        )

    assert ids(pipeline, "sturdy") == ["o0", "o1", "o2"]
    assert status("sturdy").state == "stopped"
    failed = status("fragile")
    assert failed.state == "failed"
    assert failed.failure is not None
    assert failed.failure.event == "topic orders, partition 0, offset 1"
    assert "by zero" in failed.failure.reason
    waiting = status("below")
    assert waiting.state == "stopped"
    assert waiting.failure is not None
    assert waiting.failure.reason == "waits for table 'fragile', which failed"
    assert "table 'below' waits: it reads table 'fragile', which failed" in told


def test_a_stream_goes_on_with_the_tables_that_did_not_fail(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop(STOP)
    publish(address, 1)
    with streaming(spark, pipeline, address, 10, failing="fragile") as wait:
        wait(lambda known: set(known) == {"fragile", "sturdy", "below"})
        publish(address, 0)
        publish(address, 3)
        wait(lambda known: known["sturdy"].events == 3)
        wait_for_failure("fragile")
        publish(address, 4)
        wait(lambda known: known["sturdy"].events == 4)

    assert ids(pipeline, "sturdy") == ["o0", "o1", "o2", "o3"]
    assert status("sturdy").state == "stopped"
    assert (status("fragile").state, status("below").state) == ("failed", "stopped")
    assert status("below").failure is not None


def wait_for_failure(table: str) -> None:
    gone = threading.Event()
    for _ in range(6000):
        if status(table).state == "failed":
            return
        gone.wait(0.1)
    raise AssertionError(f"{table} does not fail")


def test_only_the_tables_asked_for_are_run_if_what_they_read_stands(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop()
    publish(address, 1)

    def only(*names: str, complete: bool = False) -> dict[str, TableStatus]:
        request = Request(address, Path("state"), only=names, complete=complete)
        return run(spark, pipeline, request, ignore, threading.Event())

    with pytest.raises(RunRefused, match=r"no table 'nothing'.*fragile, sturdy, below"):
        only("nothing")
    with pytest.raises(RunRefused, match="'below' reads 'fragile', which never ran"):
        only("below")
    assert set(only("fragile")) == {"fragile"}
    with pytest.raises(RunRefused, match="'fragile', which is not complete"):
        only("below", complete=True)
    assert set(only("below")) == {"below"}
    assert ids(pipeline, "below") == ["o0"]
    assert not Path("state/shop/sturdy").exists()


def test_the_command_runs_only_the_tables_that_it_is_told(
    spark: SparkSession,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipeline = shop()
    publish(address, 1)
    # The session of all tests: the command starts none, and leaves it running.
    monkeypatch.setattr(pipeline_command, "start_spark", lambda *_, **__: spark)
    monkeypatch.setattr(session, "end_session", lambda _: None)
    monkeypatch.setenv("PYTHONPATH", "")

    def command(*only: str) -> int:
        how = ["--batch", "--at", address, "--state", "state", "--conf", "spark.log.level=ERROR"]
        chosen = [word for each in only for word in ("--only", each)]
        return run_command(["pipeline", "run", "shop.py", *how, *chosen])

    assert command("nothing") == Exit.REFUSED
    assert "there is no table 'nothing'" in capsys.readouterr().err
    assert command("fragile", "below") == Exit.OK
    told = [json.loads(line)["table"] for line in capsys.readouterr().out.splitlines()]
    assert set(told) == {"fragile", "below"}
    assert ids(pipeline, "below") == ["o0"]
    assert not Path("state/shop/sturdy").exists()


KEYED = """
    from mainstem import pipelines as p

    @p.table(source="orders", schema="id string, amount int",
             sink=p.sqlite("base.db", "keyed", key="amount"))
    def keyed(orders):
        return orders
"""


def letters(address: str, topic: str = "shop.dead") -> list[tuple[str, int, str]]:
    """Return table, offset and reason of the dead letters."""
    with mainstem.connect(address) as stem:
        found = [dict(each.headers) for each in stem.subscribe(topic, follow=False)]
    names = ("table", "offset", "reason")
    told = [[(each[f"mainstem-{name}"] or b"").decode() for name in names] for each in found]
    return [(table, int(offset), reason) for table, offset, reason in told]


def test_events_on_which_a_function_fails_are_buried_once_and_the_run_goes_on(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop()
    publish(address, 1, 0, 2, 0)

    found = bounded(spark, pipeline, address)

    assert ids(pipeline, "fragile") == ids(pipeline, "below") == ["o0", "o2"]
    fragile = found["fragile"]
    assert (fragile.state, fragile.bad, fragile.events) == ("stopped", 2, 4)
    assert found["sturdy"].bad == 0
    buried = letters(address)
    assert [each[:2] for each in buried] == [("fragile", 1), ("fragile", 3)]
    assert all("by zero" in each[2] for each in buried)

    # As a crash leaves it after the batch was written: it is run again, from the same offsets.
    forget_last_commit(Path("state/shop/fragile/checkpoint"))
    publish(address, 5)
    found = bounded(spark, pipeline, address)

    assert ids(pipeline, "below") == ["o0", "o2", "o4"]
    assert (found["fragile"].bad, found["fragile"].events) == (2, 5)
    assert letters(address) == buried

    replayed = bounded(spark, pipeline, address, into="anew")

    assert replayed["fragile"].bad == 2
    assert rows_of(pipeline, "anew") == rows_of(pipeline)
    assert letters(address, pipeline.dead_topic("anew")) == buried


FAULTS = {
    "a worker that ends": ("os._exit(3)", "ended its process"),
    "events that are gone": (
        "with mainstem.connect({address!r}) as stem: stem.topics.trim('orders', 2)",
        "offsets of partition 0 of topic 'orders' are gone",
    ),
}
FAULTY = """
    import os
    import mainstem
    from pathlib import Path
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    @p.table(source="orders", schema="id string, amount int", sink=p.delta("faulty"))
    def faulty(orders):
        @F.udf("int")
        def inverted(amount):
            if amount:
                return 100 // amount
            failures = Path({failures!r})
            with failures.open("a") as out:
                out.write("x")
            if failures.stat().st_size == 2:
                {fault}
            raise ValueError("no amount")

        return orders.select("id", inverted("amount").alias("inverted"))
"""


@pytest.mark.parametrize(("fault", "cause"), FAULTS.values(), ids=FAULTS)
def test_no_event_is_buried_for_a_failure_that_is_not_the_functions(
    spark: SparkSession, address: str, fault: str, cause: str
) -> None:
    failures = Path("failures").resolve()
    fault = fault.format(address=address)
    pipeline = shop(text=FAULTY.format(failures=str(failures), fault=fault))
    publish(address, 1, 0, 2)

    # The batch fails by the function, and the search for the event by something else.
    with pytest.raises(PipelineFailed, match="ValueError: no amount") as failed:
        bounded(spark, pipeline, address)

    assert cause in str(failed.value)
    assert "topic orders, partition 0, offsets 0 to 2" in str(failed.value)
    assert ids(pipeline, "faulty") == []
    assert not StateDirectory(Path("state/shop/faulty")).skipped_events()
    with mainstem.connect(address) as stem:
        assert "shop.dead" not in [each.name for each in stem.topics.list()]


MORTAL = """
    import os, signal
    from pathlib import Path
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    @p.table(source="orders", schema="id string, amount int", sink=p.delta("mortal"))
    def mortal(orders):
        driver = os.getpid()
        skips = Path("mainstem-pipelines/shop/mortal/skips.json").resolve()
        killed = Path("killed").resolve()

        @F.udf("int")
        def inverted(amount):
            if skips.exists() and not killed.exists():
                killed.touch()
                os.kill(driver, signal.SIGKILL)
                os._exit(1)
            return 100 // amount

        return orders.select("id", inverted("amount").alias("inverted"))
"""


@pytest.mark.peers
@pytest.mark.usefixtures("own_scratch")
def test_a_run_that_is_killed_after_events_were_found_buries_them_once_when_it_runs_again(
    address: str,
) -> None:
    pipeline = shop(text=MORTAL)
    publish(address, 1, 0, 2, 0)
    program = [sys.executable, "-m", "mainstem", "pipeline", "run", "shop.py", "--batch"]

    def ran() -> int:
        command = [*program, "--at", address, "--master", "local[2]"]
        return subprocess.run(command, env=os.environ, check=False).returncode

    assert ran() == -signal.SIGKILL
    assert Path("killed").exists()
    assert ids(pipeline, "mortal") == []
    publish(address, 5)

    assert ran() == 0

    assert ids(pipeline, "mortal") == ["o0", "o2", "o4"]
    assert [each[:2] for each in letters(address)] == [("mortal", 1), ("mortal", 3)]
    found = StateDirectory(Path("mainstem-pipelines/shop/mortal")).status()
    assert found is not None
    assert (found.bad, found.events) == (2, 5)


def test_a_row_without_a_key_is_buried_and_the_others_are_kept(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop(text=KEYED)
    publish(address, 1, None, 2)

    found = bounded(spark, pipeline, address)["keyed"]

    assert (found.state, found.bad) == ("stopped", 1)
    assert ids(pipeline, "keyed") == ["o0", "o2"]
    assert letters(address) == [("keyed", 1, "no value in the key column 'amount'")]


def test_where_rows_depend_on_several_events_the_range_is_named(
    spark: SparkSession, address: str
) -> None:
    text = SHOP.replace('inverted("amount").alias("inverted"))', 'inverted("amount").alias("i"))')
    text = text.replace('.alias("i"))', '.alias("i")).groupBy("i").agg(F.max("id").alias("id"))')
    text = text.replace('p.delta("fragile")', 'p.delta("fragile", key="i")')
    text = text[: text.index('    @p.table(source="fragile"')]
    pipeline = shop(text=text)
    publish(address, 1, 0, 2)

    with pytest.raises(PipelineFailed, match="topic orders, partition 0, offsets 0 to 2"):
        bounded(spark, pipeline, address)

    assert ids(pipeline, "sturdy") == ["o0", "o1", "o2"]
