"""What a terminal shows of a run that takes its time; ``test_kill.py`` shows what a pipe gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.in_process_server import serving
from tests.processes import PATIENCE_S, OnTerminal, wait_until

import mainstem

pytestmark = [
    pytest.mark.peers,
    pytest.mark.minutes,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("own_scratch"),
]

SHOP = """
import time
from pathlib import Path
from mainstem import pipelines as p

def waiting(frames):
    Path("writing").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    yield from frames

@p.table(source="numbers", schema="n bigint", sink=p.sqlite("base.db", "numbers"))
def numbers(events):
    return events.mapInPandas(waiting, "n bigint")
"""
COMMAND = [sys.executable, "-m", "mainstem", "pipeline", "run", "shop.py", "--batch"]
COMMAND += ["--master", "local[2]"]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)


def publish(address: str) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("numbers", partitions=1)
        stem.publish("numbers", {"n": 1})


def test_a_terminal_shows_that_spark_starts_and_how_long_a_batch_takes(tmp_path: Path) -> None:
    with serving(None) as address:
        publish(address)
        with OnTerminal(COMMAND, tmp_path, os.environ | {"MAINSTEM_AT": address}) as it:
            wait_until((tmp_path / "writing").exists, "no batch begins")
            shown = it.told()
            assert "mainstem: starting Spark\r\n" in shown, shown
            assert "mainstem: planning\r\n" in shown, shown
            wait_until(lambda: b" s so far, 0 of 1 tasks done" in it.shown, it.told)
            assert b"mainstem: table numbers: this batch, " in it.shown
            (tmp_path / "go").touch()

            assert it.wait() == 0, it.told()
        assert "1 events in" in it.told()


def test_a_check_says_what_is_wrong_without_a_stack_trace(tmp_path: Path) -> None:
    wrong = SHOP.replace('events.mapInPandas(waiting, "n bigint")', 'events.select("nothing")')
    (tmp_path / "shop.py").write_text(wrong)
    command = [sys.executable, "-m", "mainstem", "pipeline", "check", "shop.py"]

    it = subprocess.run(
        command, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False, text=True
    )

    assert it.returncode == 1, it.stderr
    assert "`nothing` cannot be resolved" in it.stdout
    assert "nothing" not in it.stderr
