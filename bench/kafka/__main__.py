"""Kafka clients against mainstem, beside the raw limit.

    python -m bench.kafka             measure, and write docs/benchmarks/kafka.md and kafka.svg
    python -m bench.kafka --quick     seconds, tiny numbers; prints, and writes nothing
    python -m bench.kafka.peers       the same clients against Apache Kafka, and NATS JetStream

Every system is a process (``systems.py``), and so is the load (``load.py``). To add a system, write
its class there and give it its turn in ``measuring.py``.
"""

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec
from bench.kafka.chart import draw
from bench.kafka.measuring import Bench, Figures, Process, ready_ms, started
from bench.kafka.page import page
from bench.kafka.plan import FULL, QUICK, Plan
from bench.kafka.systems import usage

from mainstem.cli.benchmarks.report import machine, write_section

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def measure(directory: Path, plan: Plan) -> Figures:
    figures = Figures()
    say("starting")
    ready = ready_ms(directory, plan.starts)
    bench = Bench(directory, plan)
    with ExitStack() as stack:
        stack.callback(bench.taking.load.stop)
        for system in (bench.disk, bench.fsync, bench.sink, bench.synced_sink):
            stack.enter_context(started(system))
        idle = usage(bench.disk).memory_mb
        for row in bench.produce():
            say(f"{row.what}: {row.cell.topic}, {row.cell.way.name}, {row.system}: {row.ratio:.2f}")
            figures.rows.append(row)
        for row in bench.consume():
            say(f"{row.what}: {row.cell.topic}, {row.cell.way.name}: {row.ratio:.2f}")
            figures.rows.append(row)
        say("latency")
        figures.delays += bench.delays()
        loaded = usage(bench.disk).memory_mb
        figures.processes.append(Process("mainstem", ready, idle, loaded))
    return figures


def say(text: str) -> None:
    print(f"kafka: {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka")
    parser.add_argument("--dir", type=Path, default=Path(), help="where to make the logs")
    parser.add_argument("--quick", action="store_true", help="tiny numbers; writes nothing")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    directory = Path(tempfile.mkdtemp(prefix=".mainstem-kafka-", dir=options.dir)).absolute()
    try:
        figures = measure(directory, plan)
    finally:
        shutil.rmtree(directory)
    command = " ".join(["python -m bench.kafka", *sys.argv[1:]])
    about = f"Command: `{command}`. Machine: {machine()}. Median of {plan.rounds} rounds."
    text = page(figures, plan, about)
    print(text)
    if not options.quick:
        kept = msgspec.json.format(msgspec.json.encode(figures), indent=1)
        (DOCS / "kafka.json").write_bytes(kept + b"\n")
        write_section(DOCS / "kafka.md", "kafka", text)
        (DOCS / "kafka.svg").write_text(draw(figures))


if __name__ == "__main__":
    main()
