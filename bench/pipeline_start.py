"""Where the time of an empty pipeline run goes: `mainstem pipeline run FILE --batch`, step by step.

    python -m bench.pipeline_start              the command as it is, and with options for the JVM
    python -m bench.pipeline_start --rounds 5

How this works: each run is a process of its own with an empty topic and one table. Functions at
the borders between the steps are wrapped, so that the process tells when each step has ended.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import mainstem
from mainstem.cli.benchmarks.report import machine
from mainstem.client.testing.local_broker import LocalServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STEPS = {
    "modules": "Python's own modules, the pipeline file, asking the server",
    "pyspark": "PySpark's modules",
    "jvm": "JVM started, until it answers",
    "context": "SparkContext and session",
    "planned": "tables planned",
    "ran": "streaming query: start, empty batch, end",
    "stopped": "session and JVM stopped",
}
PIPELINE = """
from mainstem import pipelines as p

@p.table(source=p.events("empty", schema="id string"), sink=p.parquet("out"))
def rows(events):
    return events
"""


def child(arguments: list[str]) -> None:
    """Run the command, and print when each step had ended, in seconds since the process began."""
    ends: dict[str, float] = {}
    began = time.time() - _age_s()

    def mark(step: str) -> None:
        ends.setdefault(step, time.time() - began)

    def after(owner: object, name: str, step: str) -> None:
        wrapped: Callable[..., object] = getattr(owner, name)

        def call(*args: object, **kwargs: object) -> object:
            try:
                return wrapped(*args, **kwargs)
            finally:
                mark(step)

        setattr(owner, name, call)

    from mainstem.cli.commands import pipeline  # noqa: PLC0415
    from mainstem.cli.pipelines import spark_session  # noqa: PLC0415 - timed

    start_spark = spark_session.start_spark

    def started(master: str, **conf: str) -> "SparkSession":
        mark("modules")
        import pyspark  # noqa: PLC0415
        from pyspark import java_gateway  # noqa: PLC0415

        mark("pyspark")
        after(java_gateway, "launch_gateway", "jvm")
        pyspark.core.context.launch_gateway = java_gateway.launch_gateway  # type: ignore[attr-defined]
        try:
            return start_spark(master, **conf)
        finally:
            mark("context")
            from mainstem.pipelines.running import table_run  # noqa: PLC0415

            after(table_run.TableRun, "prepare", "planned")
            after(pipeline, "_run", "ran")

    setattr(pipeline, "start_spark", started)  # noqa: B010 - it is not exported from there
    from mainstem.cli.root import run  # noqa: PLC0415

    try:
        run(arguments)
    finally:
        mark("stopped")
        Path("ends.json").write_text(json.dumps(ends))


def _age_s() -> float:
    """Return how long ago this process was started."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    return uptime_s - ticks / os.sysconf("SC_CLK_TCK")


def one_run(address: str, options: str) -> dict[str, float]:
    """Return how long each step of a run takes, in seconds."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "empty.py").write_text(PIPELINE)
        command = [sys.executable, "-m", "bench.pipeline_start", "--child"]
        command += ["pipeline", "run", "empty.py", "--batch", "--at", address]
        environment = os.environ | {"PYTHONPATH": str(Path.cwd()), "SPARK_LOCAL_IP": "127.0.0.1"}
        if options:
            environment["JDK_JAVA_OPTIONS"] = options
        subprocess.run(command, cwd=directory, env=environment, check=True, capture_output=True)
        ends = json.loads(Path(directory, "ends.json").read_text())
    took, before = {}, 0.0
    for step in STEPS:
        took[step] = ends[step] - before
        before = ends[step]
    return took


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline_start")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    variants = {"as it is": "", QUICK_JVM: QUICK_JVM}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as directory:
        server = LocalServer(Path(directory, "data"))
        try:
            with mainstem.connect(server.kafka) as stem:
                stem.topics.create("empty")
            for number in range(-1, rounds):
                for name, options in variants.items():
                    took = one_run(server.kafka, options)
                    # The first run of each reads all files from the disk.
                    if number >= 0:
                        runs[name].append(took)
        finally:
            server.kill()
    print(f"Command: `python -m bench.pipeline_start --rounds {rounds}`. Machine: {machine()}.\n")
    print("| step | " + " | ".join(f"{name}, s" for name in variants) + " |")
    print("|---|" + "---|" * len(variants))
    for step, title in STEPS.items():
        cells = [f"{median(each[step] for each in runs[name]):.1f}" for name in variants]
        print(f"| {title} | " + " | ".join(cells) + " |")
    totals = [f"{median(sum(each.values()) for each in runs[name]):.1f}" for name in variants]
    print("| **together** | " + " | ".join(totals) + " |")


if __name__ == "__main__":
    main()
