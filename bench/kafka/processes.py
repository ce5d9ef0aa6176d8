"""CPU time and memory of processes, and the process that puts load on a system."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_ROOT = Path(__file__).parents[2]

Job = dict[str, object]
Result = dict[str, float]


class Usage(NamedTuple):
    """Seconds of processor time, user and system, and resident memory in MB, now and at most."""

    cpu_s: float
    memory_mb: float
    highest_mb: float

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Return the usage of a process so far."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(fields[21])
        memory_mb = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        status = Path(f"/proc/{pid}/status").read_text()
        highest_mb = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
        return cls((int(fields[11]) + int(fields[12])) / _TICKS, memory_mb, highest_mb)


def end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Ask a process to end, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Load:
    """A process with clients (``load.py`` or ``nats_load.py``): does one job after the other."""

    def __init__(self, module: str = "bench.kafka.load") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, job: Job) -> None:
        """Start a job without waiting for it."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def line(self) -> Result:
        """Return the next thing that it reports."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a load process ended early; what it said is above")
        found: Result = json.loads(line)
        return found

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
