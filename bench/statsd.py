"""Measures how many StatsD packets are taken without loss, beside npm's statsd.

    npm install --prefix .cache/statsd --no-save --no-package-lock statsd
    python -m bench.statsd --rounds 3    minutes; writes docs/benchmarks/statsd.md
    python -m bench.statsd --quick       prints, and writes nothing

How this works: a process sends packets at a set rate, for two seconds each; then it is asked how
many came. Both systems have their turn at every rate, in every round. Ours also writes each value
into a topic; npm's only counts. Ours is measured with its receive buffer of 8 MiB, which it asks
the kernel for, and with the system's default, which npm's has.
"""

import argparse
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from bench.kafka.page import table
from bench.kafka.systems import COMMAND, PATIENCE_S, ROOT

from mainstem.cli.benchmarks.report import machine

PAGE = ROOT / "docs" / "benchmarks" / "statsd.md"
NPM = ROOT / ".cache" / "statsd" / "node_modules" / "statsd" / "stats.js"
RATES = (10_000, 25_000, 50_000, 75_000, 100_000)
TURN_S = 2.0
LINE = b"app.requests:1|c|#env:prod"
_PACKETS = re.compile(r"packets_received'?: (\d+)")


class Ours:
    """``mainstem serve --statsd``."""

    def __init__(self, directory: Path, name: str, *options: str) -> None:
        self.name = name
        free = "127.0.0.1:0"
        self._process = subprocess.Popen(
            [
                *(str(COMMAND), "serve", str(directory), "--log-format", "json"),
                *("--kafka", free, "--admin", free, "--statsd", free, *options),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        said = next(each for line in self._process.stderr if "statsd" in (each := json.loads(line)))
        self.port = int(said["statsd"].rpartition(":")[2])
        self._admin = said["admin"]

    def received(self) -> int:
        """Return how many packets came so far."""
        return self._metric("mainstem_statsd_packets_total")

    def counted_as_lost(self) -> int:
        """Return how many packets it says that the kernel dropped."""
        return self._metric("mainstem_statsd_kernel_drops_total")

    def _metric(self, name: str) -> int:
        with urlopen(f"http://{self._admin}/metrics", timeout=PATIENCE_S) as page:
            found = re.search(rf"^{name} (\S+)", page.read().decode(), re.M)
        assert found
        return int(float(found[1]))

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class Npm:
    """npm's statsd, without a backend, in one process."""

    name = "npm's statsd"

    def __init__(self, directory: Path) -> None:
        self.port, self._management = _free_port(socket.SOCK_DGRAM), _free_port()
        settings = {
            "port": self.port,
            "address": "127.0.0.1",
            "mgmt_port": self._management,
            "mgmt_address": "127.0.0.1",
            "backends": [],
            "flushInterval": 3_600_000,
        }
        file = directory / "npm.js"
        file.write_text(json.dumps(settings))
        self._process = subprocess.Popen(["node", str(NPM), str(file)], stdout=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.received()
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return

    def received(self) -> int:
        """Return how many packets came so far."""
        with socket.create_connection(("127.0.0.1", self._management), PATIENCE_S) as asking:
            asking.sendall(b"counters\n")
            said = b""
            while b"END" not in said:
                said += asking.recv(65536)
        found = _PACKETS.search(said.decode())
        return int(found[1]) if found else 0

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def _free_port(kind: int = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def send(port: int, rate: int, count: int) -> float:
    """Send packets at a rate; return the seconds it took."""
    began = time.perf_counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        for number in range(count):
            sender.send(LINE)
            if number % 50 == 0:
                ahead = number / rate - (time.perf_counter() - began)
                if ahead > 0:
                    time.sleep(ahead)
    return time.perf_counter() - began


def turn(system: Ours | Npm, rate: int, turn_s: float) -> tuple[float, float, int]:
    """Return the share of packets that came, the rate, and how many are neither here nor lost."""
    before, count = system.received(), int(rate * turn_s)
    lost_before = system.counted_as_lost() if isinstance(system, Ours) else 0
    command = [sys.executable, "-m", "bench.statsd", "--send", str(system.port), str(rate)]
    sent = subprocess.run([*command, str(count)], check=True, stdout=subprocess.PIPE, text=True)
    came = system.received() - before
    until = time.monotonic() + 5
    while came < count and time.monotonic() < until:
        time.sleep(0.1)
        more = system.received() - before
        if more == came:
            break
        came = more
    lost = system.counted_as_lost() - lost_before if isinstance(system, Ours) else 0
    return came / count, count / float(sent.stdout), count - came - lost


@contextmanager
def systems(directory: Path) -> Iterator[list[Ours | Npm]]:
    """Start all that are measured."""
    found: list[Ours | Npm] = [
        Ours(directory / "ours", "mainstem"),
        Ours(
            directory / "small",
            "mainstem, buffer of the system",
            *("--set", "statsd.receive_buffer_bytes=212992"),
        ),
    ]
    if NPM.exists() and shutil.which("node"):
        found.append(Npm(directory))
    else:
        sys.stdout.write("npm's statsd is not there: see python -m bench.statsd --help\n")
    try:
        yield found
    finally:
        for each in found:
            each.stop()


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--send", nargs=3, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        sys.stdout.write(f"{send(*given.send)}\n")
        return
    rounds, turn_s = (1, 0.2) if given.quick else (given.rounds, TURN_S)
    shares: dict[tuple[str, int], list[float]] = {}
    reached: dict[int, list[float]] = {}
    untold: dict[int, int] = {}
    with (
        tempfile.TemporaryDirectory(prefix="mainstem-bench-") as scratch,
        systems(Path(scratch)) as found,
    ):
        names = [each.name for each in found]
        for _ in range(rounds):
            for rate in RATES:
                for each in found:
                    share, really, missing = turn(each, rate, turn_s)
                    if isinstance(each, Ours):
                        untold[rate] = max(untold.get(rate, 0), abs(missing))
                    shares.setdefault((each.name, rate), []).append(share)
                    reached.setdefault(rate, []).append(really)
    rows = [
        [
            f"{rate:,}",
            f"{statistics.median(reached[rate]):,.0f}",
            *(f"{1 - statistics.median(shares[name, rate]):.2%}" for name in names),
            f"{untold[rate]:,}",
        ]
        for rate in RATES
    ]
    columns = ["packets/s asked for", "sent", *(f"lost by {name}" for name in names)]
    text = f"""# StatsD packets, and how many are lost

    {" ".join(["python -m bench.statsd", *sys.argv[1:]])}

writes this page. Machine: {machine()}. One counter with a tag in each packet; {turn_s:g} s at
each rate, {rounds} rounds; figures are medians. The sender is a Python process on the same
machine, which limits the rate. "Buffer of the system" is mainstem with the system's default
receive buffer. mainstem also writes every value to a topic, and counts the packets that the
kernel drops. The last column is the largest number of packets in a measurement that mainstem
neither received nor counted as lost; npm's statsd does not count them.

{table([*columns, "neither received nor counted as lost"], rows)}
"""
    sys.stdout.write(text)
    if not given.quick:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
