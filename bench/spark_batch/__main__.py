"""Shows where the time of a small Spark batch goes, beside Spark's own Kafka connector.

    python -m bench.spark_batch --before ../mainstem-before

takes about two minutes per round and version, and writes docs/benchmarks/spark-batch.md. Sessions
of the version before, a clone of an earlier commit, take turns with those of this one. The jars of
the connector are in .cache/spark-kafka, where .ci/run puts them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from bench.spark_batch.measuring import Session
from bench.spark_batch.page import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "spark-batch.md"
LIMIT_S = 600


def measured(version: Path, turns: int, seconds: float) -> Session:
    """Measure one session of a version."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "session.json"
        command = [sys.executable, "-m", "bench.spark_batch.measuring"]
        subprocess.run(
            [*command, str(turns), str(seconds), str(file)],
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{version / 'src'}"},
            cwd=ROOT,
            check=True,
            timeout=LIMIT_S,
        )
        return msgspec.json.decode(file.read_bytes(), type=Session)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="clone of an earlier commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    before, now = list[Session](), list[Session]()
    for number in range(given.rounds):
        for kept, version in ((before, given.before.resolve()), (now, ROOT)):
            kept.append(measured(version, given.turns, given.seconds))
            print(f"round {number + 1}: {version.name}, load {kept[-1].load:.1f}", flush=True)
    PAGE.write_text(page(before, now, given.rounds, given.turns, given.seconds))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
