"""Injects faults into a server: kill, pause, network cut, full disk, clock jumps."""

import mmap
import signal
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tests.checker.proxy import Proxy
from tests.faults.disk.test_full_disk import SmallDisk
from tests.faults.kafka.test_kafka_full_disk import FULL
from tests.faults.killable_server import Mortal, Tally

HOUR_NS = 3_600_000_000_000
LONGEST_FULL_S = 10
FAULTS = ("kill", "pause", "cut", "fill", "step")

ELSEWHERE = """
from mainstem.heads.kafka.adapter.service import Service
Service.port = property(lambda self: {port}, lambda self, value: None)
"""
"""Clients are told to connect to another port."""

STEPPED = """
import mmap, struct, time
with open({path!r}, "rb") as file:
    by = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
real = time.time_ns
time.time_ns = lambda: real() + struct.unpack("q", by[:8])[0]
"""
"""The time of day is off by what a file says."""


class Disk:
    """A file system of its own; where none can be mounted, every write is refused instead."""

    def __init__(self, path: Path) -> None:
        self._small = SmallDisk(path)
        self._sign = path.with_name("full")
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=256m", "mainstem-test", str(path)]
        mounted = subprocess.run(command, capture_output=True, check=False)
        self._is_mounted = mounted.returncode == 0
        self.flaw = "" if self._is_mounted else FULL.format(sign=str(self._sign))
        self.data = self._small.data

    def fill(self) -> None:
        """Leave no space."""
        if self._is_mounted:
            self._small.fill()
        else:
            self._sign.touch()

    def free(self) -> None:
        """Give the space back."""
        if self._is_mounted:
            self._small.free()
        else:
            self._sign.unlink()

    def close(self) -> None:
        """Give the file system back."""
        if self._is_mounted:
            # Lazily, since a server that was killed may not be gone yet.
            subprocess.run(["umount", "-l", str(self._small.path)], check=True)


class Clock:
    """What the server's time of day is off by."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        self.flaw = STEPPED.format(path=str(path))
        with path.open("r+b") as file:
            self._by = mmap.mmap(file.fileno(), 8)

    def step(self, by_ns: int) -> None:
        """Set it off by so much."""
        self._by[:8] = struct.pack("q", by_ns)

    def close(self) -> None:
        """Let go of it."""
        self._by.close()


class Nemesis:
    """A server behind a proxy, on a disk and with a clock of its own, and all that befalls it."""

    def __init__(self, server: Mortal, proxy: Proxy, disk: Disk, clock: Clock, rng: Random) -> None:
        self._server, self._proxy, self._disk, self._clock = server, proxy, disk, clock
        self._rng = rng
        self._never = threading.Event()
        self.address = proxy.address
        self.faults: Counter[str] = Counter()

    def strike(self, done: Tally) -> None:
        """Let the next thing happen, and be over, but for the clock, which stays as it is.

        ``done``: what goes on counting for as long as the server does what it is asked to.
        """
        seldom = min(self.faults[name] for name in FAULTS)
        name = self._rng.choice([each for each in FAULTS if self.faults[each] == seldom])
        if name == "fill":
            self.fill(done)
        else:
            getattr(self, name)()
        self.faults[name] += 1

    def kill(self) -> None:
        """Kill the server, and start it again a moment later."""
        self._server.kill()
        self._a_moment(0.3)
        self._server.start()

    def pause(self) -> None:
        """Stop the process, and let it go on."""
        self._server.tell(signal.SIGSTOP)
        self._a_moment(2)
        self._server.tell(signal.SIGCONT)

    def cut(self) -> None:
        """Lose answers, then the connections, then the way to the server."""
        self._proxy.mute()
        self._a_moment(0.3)
        self._proxy.cut()
        self._a_moment(1)
        self._proxy.heal()

    def fill(self, done: Tally) -> None:
        """Take all space, and give it back once the server has used up what it had reserved."""
        self._disk.fill()
        until = time.monotonic() + LONGEST_FULL_S
        count = -1
        while count < done.count and time.monotonic() < until:
            count = done.count
            self._never.wait(0.3)
        self._a_moment(1)
        self._disk.free()

    def step(self) -> None:
        """Set the clock forward or back, by up to an hour."""
        self._clock.step(self._rng.randint(-HOUR_NS, HOUR_NS))

    def _a_moment(self, most_s: float) -> None:
        self._never.wait(self._rng.uniform(0, most_s))


@contextmanager
def nemesis(path: Path, seed: int, flaw: str = "") -> Iterator[Nemesis]:
    """Start a server that everything will happen to."""
    with ExitStack() as stack:
        disk, clock = Disk(path / "disk"), Clock(path / "clock")
        stack.callback(disk.close)
        stack.callback(clock.close)
        proxy = stack.enter_context(Proxy())
        flaws = disk.flaw + clock.flaw + ELSEWHERE.format(port=proxy.port) + flaw
        server = stack.enter_context(Mortal(disk.data, flaw=flaws))
        proxy.target = server.port
        yield Nemesis(server, proxy, disk, clock, Random(seed))
