"""A server in its own process, raw sockets to it, and a well-behaved client to compare with."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, Self

from tests.heads.admin.web import get
from tests.heads.answer_times import AnswerTimes
from tests.long_runs import LONG

PATIENCE_S = 60
"""Timeout of any single step; only a failing test gets near it."""
GROWTH_MB = 128 if LONG else 64
"""How much a server's memory may grow under attack; ten thousand idle connections take 90 MB."""


def connected(address: str, receive_buffer: int = 0) -> socket.socket:
    """Return a socket connected to ``host:port``; ``receive_buffer``: bytes the kernel keeps."""
    host, _, port = address.rpartition(":")
    found = socket.socket()
    if receive_buffer:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    found.settimeout(PATIENCE_S)
    found.connect((host, int(port)))
    return found


def is_probed(client: socket.socket) -> bool:
    """Tell whether the kernel probes the peer of the server's end of a connection (keepalive)."""
    ends = (client.getpeername()[1], client.getsockname()[1])
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, _, timer, *_ = line.split()
        if tuple(int(each.partition(":")[2], 16) for each in (local, remote)) == ends:
            return timer.startswith("02:")
    raise AssertionError("the server has no such connection")


class Checks(Protocol):
    """A well-behaved client of any protocol."""

    def check(self) -> None:
        """Make one request; raise if it is not served."""


@contextlib.contextmanager
def beside(healthy: Checks, server: "Process | None" = None) -> Iterator[None]:
    """Keep a well-behaved client busy in a thread for as long as the block lasts.

    Fail if it is not served, or an answer took more than a second of the server's doing.
    """
    over = threading.Event()
    failed: list[BaseException] = []

    def go_on() -> None:
        try:
            times = AnswerTimes(server.pid if server else None)
            while not over.is_set():
                with times.measured():
                    healthy.check()
            times.check()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * PATIENCE_S)
    for error in failed:
        raise error


def until(condition: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    """Poll until a condition holds; ``meanwhile`` runs between polls."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        meanwhile()


class Process:
    """A server in its own process, so that its memory can be measured."""

    _CODE = """
import json, resource, sys
from mainstem.heads.transport import server as transport
from pathlib import Path
from mainstem.node.config import load_config
from mainstem.node.server import serve
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if sys.argv[3]:
    from tests.heads.kafka.packet_loss import lose_a_fifth
    bind = transport.bind
    def lossy(*arguments):
        listener = bind(*arguments)
        lose_a_fifth(listener)
        return listener
    transport.bind = lossy
free = "127.0.0.1:0"
settings = json.loads(sys.argv[2])
config = load_config(None, {}, settings).listening(kafka=free, admin=free)
say = lambda it: print(json.dumps({k: str(v) for k, v in it.addresses.items()}), flush=True)
serve(Path(sys.argv[1]), config, say)
"""

    def __init__(
        self,
        path: Path,
        *,
        loses_a_fifth: object = False,
        log: object = None,
        **settings: object,
    ) -> None:
        """``log``: the path where its log lines go; with those of the tests if there is none."""
        self._log = log if isinstance(log, Path) else None
        named = {name.replace("__", "."): value for name, value in settings.items()}
        with contextlib.ExitStack() as stack:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    self._CODE,
                    str(path),
                    json.dumps(named),
                    "yes" if loses_a_fifth else "",
                ],
                stdout=subprocess.PIPE,
                stderr=stack.enter_context(self._log.open("wb")) if self._log else None,
                text=True,
            )
        assert self._process.stdout is not None
        self.addresses: dict[str, str] = json.loads(self._process.stdout.readline())
        """Where each head listens."""
        self.address: str = self.addresses["kafka"]
        self.admin: str = self.addresses["admin"]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)

    def logged(self) -> str:
        """Return its log so far."""
        assert self._log is not None
        return self._log.read_text()

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels, 0 if there is none."""
        shown = get(self.admin, "/metrics").text.splitlines()
        lines = [line for line in shown if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @contextlib.contextmanager
    def within_bounds(self) -> Iterator[None]:
        """Fail if its memory grows beyond the limit in the block."""
        before = self.memory_mb()
        self.forget_peak()
        yield
        grown = self.peak_mb() - before
        print(f"memory grew by {grown:.1f} MB")  # noqa: T201 - a figure for whoever asks with -s
        assert grown < GROWTH_MB

    def memory_mb(self) -> float:
        """Return its resident memory."""
        return self._status("VmRSS")

    def peak_mb(self) -> float:
        """Return its peak resident memory since ``forget_peak``."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def cpu_s(self) -> float:
        """Return the CPU time it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def tell(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until it exits; return the exit code."""
        self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode

    def close(self) -> None:
        self.tell(signal.SIGTERM)
        self.wait()

    def _status(self, name: str) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith(name + ":"))
        return int(line.split()[1]) / 1024
