"""The process of ``mainstem sub --exec``: it reads the printed events from its stdin."""

import fcntl
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import click

_LOOK_S = 0.01


class CommandFailed(click.ClickException):
    """Raised if a command that gets events ended with an error."""


class ExecProcess:
    """A shell command with a pipe as its stdin, to which events are written."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        self.stdin: IO[bytes] = self._process.stdin
        """What it reads; a write waits while the pipe is full."""

    def has_read_all(self) -> bool:
        """Wait until the pipe is empty; False if the process ended before."""
        while _unread(self.stdin):
            if self._process.poll() is not None:
                return False
            # Nothing tells a writer that a pipe has become empty.
            time.sleep(_LOOK_S)
        return True

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def end(self) -> None:
        """Close its stdin and wait for its end."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.wait()

    def check(self) -> None:
        """Raise CommandFailed unless it ended with exit code 0."""
        if self._process.returncode:
            raise CommandFailed(f"--exec: {self._command} ended with {ending(self._process)}")


@contextmanager
def exec_process(command: str) -> Iterator[ExecProcess]:
    """Start a process; at the end of the block, wait for it, and raise CommandFailed if it failed.

    The process may end before all events are written, as ``head`` does.
    """
    process = ExecProcess(command)
    try:
        with suppress(BrokenPipeError):
            yield process
    finally:
        process.end()
    process.check()


def ending(process: "subprocess.Popen[bytes]") -> str:
    """Return how a process ended: by an exit code or a signal."""
    code = process.returncode
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _unread(pipe: IO[bytes]) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4))
    return int(count)
