"""The process of ``mainstem sub --exec``: it gets the printed events on its stdin."""

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
    """Raised if a command that gets events failed."""


class ExecProcess:
    """A shell command with a pipe as its stdin, to which events are written."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        self.stdin: IO[bytes] = self._process.stdin
        """What it reads; a write waits while the pipe is full."""

    def has_read_all(self) -> bool:
        """Wait until the process has read everything; return False if it ended before."""
        while _unread(self.stdin):
            if self._process.poll() is not None:
                return False
            # No system call waits until a pipe is empty, so this looks again and again.
            time.sleep(_LOOK_S)
        return True

    def wait(self) -> None:
        """Wait until the process ends."""
        self._process.wait()

    def end(self) -> None:
        """Close the process's stdin and wait until it ends."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.wait()

    def check(self) -> None:
        """Raise CommandFailed unless the process ended with exit code 0."""
        if self._process.returncode:
            raise CommandFailed(f"--exec: {self._command} ended with {ending(self._process)}")


@contextmanager
def exec_process(command: str) -> Iterator[ExecProcess]:
    """Start a process; at the end of the block, wait for it; raise CommandFailed if it failed.

    It may end before all events are written to it, as ``head`` does.
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
