"""Two versions of mainstem in one run: what a change costs, or brings.

    python -m bench.kafka.versions BEFORE            BEFORE is a checkout with its own .venv
    python -m bench.kafka.versions BEFORE --quick    tiny numbers

Prints, and writes nothing. The rows are those of ``peers.py``, and so is the way they are taken:
both servers run all the time and take turns, and who begins changes. Above 1.00 this version is
quicker; beside the rate stands the server's CPU per event, which says more on a busy machine.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean, median

import msgspec
from bench.kafka.__main__ import say
from bench.kafka.measuring import Taking, loading, started
from bench.kafka.page import table
from bench.kafka.peers import Comparison, Side
from bench.kafka.peers_page import OURS, Row
from bench.kafka.plan import PEERS, QUICK_PEERS, Plan
from bench.kafka.systems import COMMAND, Mainstem, usage

BEFORE = "before"
STARTS = 5


def measure(before: Path, directory: Path, plan: Plan, only: str) -> str:
    """Measure both versions, and return the tables."""
    commands = {OURS: COMMAND, BEFORE: before.absolute() / ".venv" / "bin" / "mainstem"}
    ready = _ready_ms(directory, commands)
    with ExitStack() as stack:
        clients = Taking(stack.enter_context(loading())), stack.enter_context(loading())
        disk, synced = [], []
        for name, command in commands.items():
            server = Mainstem(directory / name, "disk", command=command)
            fsync = Mainstem(directory / name, "fsync", served_by=server)
            for system in (server, fsync):
                stack.enter_context(started(system))
            disk.append(Side(name, server, *clients))
            synced.append(Side(name, fsync, *clients))
        idle_mb = {side.name: usage(side.system).memory_mb for side in disk}
        comparison = Comparison(disk, synced, plan, only)
        comparison.warm_up()
        rows = []
        for row in comparison.rows():
            say(f"{row.name}: {row.ratio(BEFORE):.2f}, CPU {_cpu_ratio(row):.2f}")
            rows.append(row)
    return f"{_rows(rows)}\n\n{_processes(ready, idle_mb)}"


def _ready_ms(directory: Path, commands: dict[str, Path]) -> dict[str, float]:
    """Start each version several times, in turn; return the median of what it takes."""
    took: dict[str, list[float]] = {name: [] for name in commands}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for number in range(STARTS + 1):
        for name, command in commands.items():
            system = Mainstem(directory / f"{name}-start-{number}", "disk", command=command)
            began = time.perf_counter()
            system.start()
            # The first compiles, which for users the installation does.
            if number:
                took[name].append((time.perf_counter() - began) * 1000)
            system.stop()
    return {name: median(each) for name, each in took.items()}


def _cpu_ratio(row: Row) -> float:
    """Return how much less CPU per event the server takes, the median of the rounds."""
    pairs = zip(row.turns[OURS], row.turns[BEFORE], strict=True)
    # The kernel counts CPU in steps, so that a short turn may have taken none.
    return median((before.server_us + 0.01) / (ours.server_us + 0.01) for ours, before in pairs)


def _rows(rows: Sequence[Row]) -> str:
    found = [(row.name, row.ratio(BEFORE), _cpu_ratio(row)) for row in rows]
    means = [geometric_mean(rate for _, rate, _ in found), geometric_mean(cpu for *_, cpu in found)]
    lines = [[name, f"{rate:.2f}", f"{cpu:.2f}"] for name, rate, cpu in found]
    lines.append(["**geometric mean**", *(f"**{mean:.3f}**" for mean in means)])
    return table(["", "events per second", "events per second of CPU"], lines)


def _processes(ready: dict[str, float], idle_mb: dict[str, float]) -> str:
    lines = [[name, f"{ready[name]:.0f}", f"{idle_mb[name]:.1f}"] for name in ready]
    return table(["", "ready after, ms", "idle, MB"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka.versions")
    parser.add_argument("before", type=Path, help="a checkout of the version before, with .venv")
    parser.add_argument("--dir", type=Path, default=Path(), help="where to make the logs")
    parser.add_argument("--quick", action="store_true", help="tiny numbers")
    parser.add_argument("--only", default="", help="a part of the names of rows")
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds count")
    options = parser.parse_args()
    plan = QUICK_PEERS if options.quick else PEERS
    plan = msgspec.structs.replace(plan, rounds=options.rounds)
    directory = Path(tempfile.mkdtemp(prefix=".mainstem-versions-", dir=options.dir)).absolute()
    try:
        print(measure(options.before, directory, plan, options.only))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
