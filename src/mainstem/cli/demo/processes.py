"""The processes of a demo: a server and a pipeline, which end with it, however that ends."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from mainstem.cli.exit_codes import Exit
from mainstem.cli.signals import leave_closed_terminal, stop_signals

TURN_S = 0.1
_CHILD = [sys.executable, "-m", "mainstem.cli.child_process"]
_PATIENCE_S = 60
_SERVES = re.compile(r"Kafka +(\S+:\d+) .*stop", re.DOTALL)
"""Matches the server's output once it is ready."""


class Stop:
    """Whether signals asked to stop; a second signal stops without waiting for the batch."""

    def __init__(self) -> None:
        self.asked, self.hurry = threading.Event(), threading.Event()
        for each in stop_signals():
            signal.signal(each, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        leave_closed_terminal()
        if self.asked.is_set() or number == signal.SIGHUP:
            # The terminal is closed, so there is no summary.
            self.hurry.set()
        self.asked.set()


# How this stops: the children have sessions of their own, so that a signal to our group reaches us
# alone. We stop the generator, then the pipeline, the server, and last what is beside it. If we are
# killed, the pipes to them close: that to the pipeline at once; those to the others are held by all
# that need them, too, so that they close when these have ended.


@contextmanager
def serving(
    arguments: Sequence[str], stop: Stop, lifelines: Sequence[int] = ()
) -> Iterator[tuple[str, int]]:
    """Run a server; yields its address, and the pipe whose end stops it.

    ``lifelines``: pipes to what is to end after the server.
    """
    stdin, lifeline = os.pipe()
    with tempfile.TemporaryFile() as said:
        command = [*_CHILD, *arguments]
        server = subprocess.Popen(
            command, stdin=stdin, stderr=said, start_new_session=True, pass_fds=lifelines
        )
        os.close(stdin)
        with server:
            try:
                yield _address(server, said.fileno(), stop), lifeline
            finally:
                server.terminate()
                os.close(lifeline)


def _address(server: "subprocess.Popen[bytes]", said: int, stop: Stop) -> str:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        ended = server.poll() is not None
        text = os.pread(said, 1 << 16, 0).decode(errors="replace")
        found = _SERVES.search(text)
        if found:
            click.echo(text, err=True)
            return found[1]
        if ended:
            break
        if stop.asked.wait(TURN_S):
            sys.exit(Exit.OK)
    raise click.ClickException(f"the server did not start: {text.strip()}")


@contextmanager
def pipeline_running(
    file: Path, address: str, work: Path, lifelines: Sequence[int], stop: Stop
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a pipeline file in a directory of its own, as ``sample``.

    ``lifelines``: pipes to what is to end after the pipeline, such as the server.
    """
    command = [*_CHILD, "--at", address, "pipeline", "run"]
    command += [str(file), "--name", "sample", "--stream", "--every", "1s"]
    with (work / "pipeline.log").open("w") as said:
        runs = subprocess.Popen(
            command,
            cwd=work,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            start_new_session=True,
            pass_fds=lifelines,
        )
    with runs:
        try:
            yield runs
        finally:
            runs.terminate()
            _wait(runs, stop)


def _wait(runs: "subprocess.Popen[bytes]", stop: Stop) -> None:
    """Wait until the pipeline has finished its batch, or until a second signal."""
    stop.hurry.clear()
    while runs.poll() is None and not stop.hurry.wait(TURN_S):
        pass
    runs.terminate()
