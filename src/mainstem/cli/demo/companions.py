"""Starts the demo's PostgreSQL and Redis as child processes, which stop after all their users."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_COMMAND = [sys.executable, "-m", "mainstem.cli.demo.companion"]


class Companion(NamedTuple):
    """A PostgreSQL or Redis that runs beside the server."""

    address: str
    """Where it is; "" if it cannot be run here."""
    reason: str
    """Why it cannot be run."""
    lifeline: int
    """The pipe whose end stops it; children that need the server inherit it."""


@contextmanager
def companion(kind: str) -> Iterator[Companion]:
    """Run a ``postgres`` or ``redis`` in the block; yields its address, or why it cannot run."""
    stdin, lifeline = os.pipe()
    process = subprocess.Popen(
        [*_COMMAND, kind],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    os.close(stdin)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            address = process.stdout.readline().strip()
            reason = "" if address else process.stderr.read().strip()
            yield Companion(address, reason, lifeline)
        finally:
            os.close(lifeline)
