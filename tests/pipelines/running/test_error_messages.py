"""Error messages of failed tables: the cause first, on one screen, the stack trace in a file."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.in_process_server import serving
from tests.long_runs import LONG
from tests.pipelines.sample_events import bounded

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.format.data_loss import DataLoss
from mainstem.pipelines.spark.error_messages import cause_of
from mainstem.pipelines.state.table_state import StateDirectory

SCREEN = 24 * 80
"""Characters of one screen."""
NUMBERS = """
    import os, sys
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    @p.table(source="numbers", schema="n int", bad="stop", sink=p.sqlite("base.db", "numbers"))
    def numbers(events):
        @F.udf("int")
        def broken(n):
            {does}

        return events.select(broken("n").alias("n"))
"""
SINKS = {
    "delta": 'p.delta("blocked/table")',
    "parquet": 'p.parquet("blocked/table")',
    "sqlite": 'p.sqlite("blocked/base.db", "numbers")',
}


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    with serving(None) as at:
        with mainstem.connect(at) as stem:
            stem.topics.create("numbers", partitions=1)
            stem.publish("numbers", {"n": 1})
        yield at


def written(does: str) -> p.Pipeline:
    Path("shop.py").write_text(dedent(NUMBERS.format(does=does)))
    return p.load(Path("shop.py"))


FAILING = [
    ("os._exit(3)", "a Python function of the query ended its process"),
    ("return 1 // 0", "ZeroDivisionError: integer division or modulo by zero"),
    ("sys.exit('enough')", "SystemExit: enough"),
    ("raise ValueError('x' * 9000)", "ValueError: xxx"),
]
"""Each is a run that fails and is searched. The last two differ only in what is made of the error's
text, which the tests of ``cause_of`` below show without Spark."""


@pytest.mark.parametrize(("does", "cause"), FAILING if LONG else FAILING[:2])
def test_a_function_that_fails_is_told_on_one_screen_with_all_of_it_in_a_file(
    spark: SparkSession, address: str, does: str, cause: str
) -> None:
    pipeline = written(does)

    with pytest.raises(PipelineFailed) as failed:
        bounded(spark, pipeline, address)

    told = str(failed.value)
    assert told.startswith(f"table 'numbers' stopped: {cause}")
    assert len(told) < SCREEN
    file = Path("state/shop/numbers/error.txt").resolve()
    assert str(file) in told
    assert "Traceback" in file.read_text() or "org.apache.spark" in file.read_text()
    status = StateDirectory(file.parent).status()
    assert status is not None
    assert status.failure is not None
    assert status.failure.reason.startswith(cause)
    assert "topic numbers, partition 0, offset" in status.failure.reason


def test_the_cause_is_the_last_line_of_pythons_stack_trace_and_not_too_long() -> None:
    trace = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "shop.py", line 9, in broken
    sys.exit('enough')
SystemExit: enough
"""

    assert cause_of(PySparkException(message=trace), Path("shop.py")) == "SystemExit: enough"
    told = cause_of(ValueError("x" * 9000), Path("shop.py"))
    assert told.startswith("ValueError: xxx")
    assert len(told) < SCREEN


def test_the_advice_for_lost_events_is_that_of_pipelines() -> None:
    told = cause_of(DataLoss("topic 'numbers' was deleted and made again"), Path("shop.py"))

    assert "was deleted and made again" in told
    assert "failOnDataLoss" not in told
    assert "mainstem pipeline run shop.py --replay --into NAME" in told


@pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS)
def test_a_sink_that_cannot_be_made_is_told_with_its_place_and_the_cause(
    spark: SparkSession, address: str, sink: str
) -> None:
    Path("blocked").write_text("a file where a directory should be")
    text = NUMBERS.replace('p.sqlite("base.db", "numbers")', sink).format(does="return n")
    Path("shop.py").write_text(dedent(text))

    with pytest.raises(InvalidDefinition) as refused:
        bounded(spark, p.load(Path("shop.py")), address)

    told = str(refused.value)
    assert "table 'numbers'" in told
    assert "blocked" in told
    assert "cannot be created or opened: " in told
    assert "Not a directory" in told or "File exists" in told
    assert len(told) < SCREEN


# Each is two runs; what is said of a topic that was made again is shown in format/test_source.py.
@pytest.mark.parametrize("way", ["trimmed", "recreated"] if LONG else ["trimmed"])
def test_the_advice_after_lost_events_is_what_a_pipeline_can_do(
    spark: SparkSession, address: str, way: str
) -> None:
    pipeline = written("return n")
    bounded(spark, pipeline, address)
    with mainstem.connect(address) as stem:
        if way == "recreated":
            stem.topics.delete("numbers")
            stem.topics.create("numbers", partitions=1)
        for n in range(5):
            stem.publish("numbers", {"n": n})
        if way == "trimmed":
            stem.topics.trim("numbers", 4)

    with pytest.raises((PipelineFailed, InvalidDefinition)) as failed:
        bounded(spark, pipeline, address)

    told = str(failed.value)
    assert "are gone" in told or "was deleted and made again" in told
    assert "failOnDataLoss" not in told
    assert "mainstem pipeline run shop.py --replay --into NAME" in told
    assert len(told) < SCREEN


@pytest.mark.peers
@pytest.mark.usefixtures("own_scratch")
def test_the_command_line_shows_a_failure_on_one_screen(address: str) -> None:
    written("os._exit(3)")

    command = [sys.executable, "-m", "mainstem", "pipeline", "run", "shop.py", "--batch"]
    ran = subprocess.run(
        [*command, "--at", address, "--master", "local[2]"],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 6
    lines = [line for line in ran.stderr.splitlines() if "JDK_JAVA_OPTIONS" not in line]
    assert sum(1 + len(line) // 80 for line in lines) <= 24, ran.stderr
    assert "a Python function of the query ended its process" in lines[-1]
