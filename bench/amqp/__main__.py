"""AMQP 0-9-1 clients against mainstem and RabbitMQ, in one run.

    apt-get install rabbitmq-server librabbitmq-dev gcc libc6-dev
    python -m bench.amqp                       measure, and write docs/benchmarks/amqp.md
    python -m bench.amqp --rounds 5            so many rounds
    python -m bench.amqp --only latency        measure that, and keep the other figures of the page
    python -m bench.amqp --quick               two minutes; prints, and writes nothing

The load is a program in C (``load.c``), which cc compiles. The servers are processes with data of
their own in ``--dir``, and end with the run.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
from bench.amqp.measuring import SECTIONS, Bench
from bench.amqp.page import Figures, Section, page
from bench.amqp.plan import FULL, QUICK, TINY, WINDOW
from bench.amqp.systems import missing, rabbitmq_version

from mainstem.cli.benchmarks.report import machine

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
PLANS = {"full": FULL, "quick": QUICK, "tiny": TINY}


def kept() -> Figures:
    """Return the figures of earlier runs, if they are of the same RabbitMQ."""
    file, version = DOCS / "amqp.json", rabbitmq_version()
    if file.exists():
        found = msgspec.json.decode(file.read_bytes(), type=Figures)
        if found.version == version:
            return found
    return Figures(version)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.amqp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--dir", type=Path, default=Path(), help="where the servers keep their data"
    )
    parser.add_argument("--rounds", type=int, help="how often each system has its turn")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), help="measure only these")
    parser.add_argument("--quick", action="store_true", help="small numbers; writes nothing")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if lack := missing():
        raise SystemExit(lack)
    plan = PLANS["tiny" if given.tiny else "quick" if given.quick else "full"]
    if given.rounds:
        plan = plan._replace(rounds=given.rounds)
    writes = plan.backlog == FULL.backlog
    figures = kept() if writes else Figures(rabbitmq_version())
    command = " ".join(["python -m bench.amqp", *sys.argv[1:]])
    directory = Path(tempfile.mkdtemp(prefix=".mainstem-amqp-", dir=given.dir)).absolute()
    try:
        bench = Bench(directory, plan)
        for name in given.only or SECTIONS:
            about = f"Command: `{command}`. Machine: {machine()}. {plan.rounds} rounds."
            figures.sections[name] = Section(about, SECTIONS[name](bench))
    finally:
        shutil.rmtree(directory)
    text = page(figures, WINDOW)
    print(text)
    if writes:
        json = msgspec.json.format(msgspec.json.encode(figures), indent=1)
        (DOCS / "amqp.json").write_bytes(json + b"\n")
        (DOCS / "amqp.md").write_text(text)


if __name__ == "__main__":
    main()
