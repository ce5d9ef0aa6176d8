"""Processes that a test started: found by a mark in their environment, also those of their own."""

import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S = 120
MARK = "MAINSTEM_TEST_MARK"


def marked(mark: str) -> dict[int, str]:
    """Return who has the mark: process → its command line. Who has ended does not count."""
    found = {}
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and f"{MARK}={mark}".encode() in _parts(each / "environ"):
                found[int(each.name)] = b" ".join(_parts(each / "cmdline")).decode(errors="replace")
    return found


def _parts(file: Path) -> list[bytes]:
    return file.read_bytes().split(b"\0")


def wait_until(
    true: Callable[[], object], what: str | Callable[[], str], patience_s: float = PATIENCE_S
) -> None:
    """Wait for a condition; if it does not come, say what is wrong by then."""
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until, what if isinstance(what, str) else what()
        time.sleep(0.05)


def wait_until_none_is_left(mark: str) -> None:
    """Wait until nobody has the mark any more."""
    until = time.monotonic() + PATIENCE_S
    while left := marked(mark):
        assert time.monotonic() < until, f"these are left: {left}"
        time.sleep(0.05)


def output_of(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run a program to its end, which must be a good one; return what it printed."""
    done = subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def in_own_session(
    command: Sequence[str], log: Path, cwd: Path, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program that writes to a log; in the end it is killed."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


class OnTerminal:
    """A program on a terminal of its own, which can be closed; in the end it is killed."""

    def __init__(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execve(command[0], list(command), environment)
            finally:
                os._exit(127)

        self.shown = b""
        self._ended = False
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> "OnTerminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _read(self) -> None:
        """Keep what is written; a terminal that nobody reads would stop who writes."""
        while not self._closing.is_set():
            if select.select([self._terminal], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self._terminal, 65536)
                except OSError:
                    # So Linux tells that nobody has the terminal open any more.
                    break
        os.close(self._terminal)

    def told(self) -> str:
        """Return what was shown so far."""
        return self.shown.decode(errors="replace")

    def close(self) -> None:
        """Close the terminal, as a window that is closed does."""
        self._closing.set()
        self._reader.join()

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for the end of the program; return how it ended."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._ended = True
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        raise AssertionError(f"process {self.pid} does not end")
