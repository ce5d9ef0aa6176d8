"""Stopping a run in any way finishes its batch and leaves no process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import processes
from tests.in_process_server import serving
from tests.long_runs import LONG

import mainstem
from mainstem import pipelines as p

pytestmark = [
    pytest.mark.peers,
    pytest.mark.minutes,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("own_scratch"),
]

SLOW = Path(__file__).with_name("waiting_sink.py")
COMMAND = [sys.executable, "-m", "mainstem", "pipeline", "run", str(SLOW), "--stream"]
COMMAND += ["--master", "local[2]"]


class World:
    """A topic, and runs that read it into a table, one after the other."""

    def __init__(self, address: str, directory: Path) -> None:
        self._address, self._directory, self._published = address, directory, 0
        self.mark = str(directory)
        self.environment = os.environ | {"MAINSTEM_AT": address, processes.MARK: self.mark}

    def publish(self) -> None:
        with mainstem.connect(self._address) as stem:
            stem.topics.create("numbers", partitions=1, exist_ok=True)
            for _ in range(10):
                stem.publish("numbers", {"n": self._published})
                self._published += 1

    @contextmanager
    def started(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run it; in the end it is killed."""
        self.publish()
        for each in ("writing", "go"):
            (self._directory / each).unlink(missing_ok=True)
        log = self._directory / "run.log"
        with processes.in_own_session(COMMAND, log, self._directory, self.environment) as process:
            yield process

    def wait_for_batch(self) -> None:
        processes.wait_until((self._directory / "writing").exists, self.told)

    def let_batch_go(self) -> None:
        (self._directory / "go").touch()

    def told(self) -> str:
        file = self._directory / "run.log"
        return file.read_text() if file.exists() else ""

    def is_whole(self) -> bool:
        rows = p.sqlite(str(self._directory / "numbers.db"), "numbers").read()
        return rows is not None and sorted(rows["n"].to_pylist()) == list(range(self._published))


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if LONG else (signal.SIGINT,)
"""Each is a JVM of its own. The tests below send SIGHUP (a closed terminal) and SIGTERM."""


def test_signals_to_the_group_let_the_batch_finish_and_leave_nobody(tmp_path: Path) -> None:
    with serving(None) as address:
        world = World(address, tmp_path)
        for number in SIGNALS:
            with world.started() as process:
                world.wait_for_batch()
                os.killpg(process.pid, number)
                processes.wait_until(
                    lambda: "stopping after this batch" in world.told(), world.told
                )
                world.let_batch_go()

                assert process.wait(processes.PATIENCE_S) == 0, world.told()

            processes.wait_until_none_is_left(world.mark)
            assert world.is_whole()
            assert "Traceback" not in world.told()


def test_a_terminal_that_is_closed_lets_the_batch_finish_and_leaves_nobody(tmp_path: Path) -> None:
    with serving(None) as address:
        world = World(address, tmp_path)
        world.publish()
        with processes.OnTerminal(COMMAND, tmp_path, world.environment) as it:
            world.wait_for_batch()
            it.close()
            world.let_batch_go()

            assert it.wait() == 0

        processes.wait_until_none_is_left(world.mark)
        assert world.is_whole()


def test_a_run_that_is_killed_leaves_neither_java_nor_python_behind(tmp_path: Path) -> None:
    with serving(None) as address:
        world = World(address, tmp_path)
        with world.started() as process:
            world.wait_for_batch()
            assert len(processes.marked(world.mark)) >= 3

            process.kill()

        processes.wait_until_none_is_left(world.mark)
        with world.started() as process:
            world.let_batch_go()
            processes.wait_until(world.is_whole, world.told)
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(processes.PATIENCE_S) == 0, world.told()
        processes.wait_until_none_is_left(world.mark)
