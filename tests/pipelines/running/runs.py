"""Runs of a pipeline file, each a process of its own by the command that a user would give."""

import os
import signal
import subprocess
import sys
from contextlib import chdir, suppress
from pathlib import Path

from tests.processes import MARK, marked, wait_until_none_is_left

from mainstem import pipelines as p
from mainstem.pipelines.state.table_state import DEFAULT_STATE, StateDirectory, TableStatus

PATIENCE_S = 600
Rows = dict[str, list[tuple[object, ...]]]


class Runs:
    """Runs of a pipeline in one directory."""

    def __init__(self, file: Path, directory: Path, address: str) -> None:
        directory.mkdir(exist_ok=True)
        self.file = file
        self._directory = directory
        self.mark = str(directory)
        self._environment = os.environ | {"MAINSTEM_AT": address, MARK: self.mark}

    def start(self, *how: str) -> "subprocess.Popen[bytes]":
        """Start a run."""
        program = [sys.executable, "-m", "mainstem", "pipeline", "run", str(self.file)]
        with (self._directory / "run.log").open("ab") as log:
            return subprocess.Popen(
                [*program, "--master", "local[2]", *how],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run(self, *how: str) -> None:
        """Run up to the end."""
        with self.start(*how) as process:
            assert process.wait(PATIENCE_S) == 0, self.told()
        wait_until_none_is_left(self.mark)

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """End a run and all that it started, at once."""
        assert process.poll() is None, self.told()
        for each in marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()
        wait_until_none_is_left(self.mark)

    def told(self) -> str:
        """Return what the runs have said."""
        return (self._directory / "run.log").read_text()

    def status(self, table: str, into: str | None = None) -> TableStatus | None:
        """Return how a table, or a copy of it, is; None before its first run."""
        pipeline = f"{self.file.stem}@{into}" if into else self.file.stem
        return StateDirectory(self._directory / DEFAULT_STATE / pipeline / table).status()

    def batch(self, table: str) -> int:
        """Return the number of a table's last batch; -1 before the first."""
        found = self.status(table)
        return found.batch if found is not None else -1

    def read(self, table: str, topic: str) -> int:
        """Return how many events a table has read of a topic."""
        found = self.status(table)
        return sum(found.offsets.get(topic, {}).values()) if found is not None else 0

    def rows(self, into: str | None = None) -> Rows:
        """Return what the tables hold."""
        found = {}
        with chdir(self._directory):
            for table in p.load(self.file).tables:
                sink = table.sink.beside(into) if into else table.sink
                rows = sink.read()
                assert rows is not None, table.name
                found[table.name] = sorted(tuple(row.values()) for row in rows.to_pylist())
        return found
