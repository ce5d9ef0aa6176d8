"""The child processes of a demo: a server and a pipeline, which stop even if the demo is killed."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

import click

from mainstem.cli.connection import DEFAULT_DIRECTORY
from mainstem.cli.exit_codes import Exit
from mainstem.cli.signals import leave_closed_terminal, stop_signals

Decorated = TypeVar("Decorated", bound=Callable[..., object])

TURN_S = 0.1
_CHILD = [sys.executable, "-m", "mainstem.cli.child_process"]
_PATIENCE_S = 60
_SERVES = re.compile(r"Kafka +(\S+:\d+) .*stop", re.DOTALL)
"""Matches the server's output once it is ready."""


def serving_options(demo: Decorated) -> Decorated:
    """Add what every demo is given: where its log is, how long it runs, where clients connect."""
    for add in (
        click.option("--kafka", default="127.0.0.1:9092", help="Where Kafka clients connect."),
        click.option("--for", "seconds", type=float, help="Stop after this many seconds."),
        click.argument("directory", default=DEFAULT_DIRECTORY),
    ):
        demo = add(demo)
    return demo


class Stop:
    """Whether a signal has asked to stop, and whether a second one ended waiting for the batch."""

    def __init__(self) -> None:
        self.asked, self.hurry = threading.Event(), threading.Event()
        for each in stop_signals():
            signal.signal(each, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        leave_closed_terminal()
        if self.asked.is_set() or number == signal.SIGHUP:
            # If the terminal is closed, nobody sees a summary, so do not wait for it either.
            self.hurry.set()
        self.asked.set()


# How the demo stops: the children are in sessions of their own, so that a signal to our process
# group reaches only this process. It stops the generator, then the pipeline, the server, and last
# PostgreSQL and Redis. If this process is killed, its pipes to the children close. The pipeline
# then stops at once. The pipes to the others are also open in the children that need them, so these
# stop after those.


@contextmanager
def serving(
    arguments: Sequence[str], stop: Stop, lifelines: Sequence[int] = ()
) -> Iterator[tuple[str, int]]:
    """Run a server in the block; yields its address, and the pipe whose closing stops it.

    ``lifelines`` are pipes to processes that must stop after the server, which therefore inherits
    them.
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
    """Run a pipeline file in the block, as pipeline ``sample`` with the working directory ``work``.

    ``lifelines`` are pipes to processes that must stop after the pipeline, such as the server.
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
    """Wait until the pipeline has finished its batch and stopped, or a second signal comes."""
    stop.hurry.clear()
    while runs.poll() is None and not stop.hurry.wait(TURN_S):
        pass
    runs.terminate()
