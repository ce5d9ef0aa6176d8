"""The benchmark of the Kafka head runs, in small, so that it can be trusted to run in full."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_measures_everything_beside_the_raw_limit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.kafka", "--quick", "--dir", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for heading in ("### Produce", "### Consume", "### End to end", "### The process"):
        assert heading in done.stdout
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| 1000 B")]
    produced = [row for row in rows if "fsync" in row[3]]
    assert len(produced) == 5
    assert len(rows) == 3 * 5 + 1
    assert not list(tmp_path.iterdir())
