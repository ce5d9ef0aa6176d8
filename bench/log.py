"""Measures the log and writes the table into docs/benchmarks/log.md: ``mainstem bench log``."""

import sys
from pathlib import Path

from mainstem.cli.root import run

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "log.md"

if __name__ == "__main__":
    sys.exit(run(["bench", "log", "--format", "table", "--write", str(PAGE), *sys.argv[1:]]))
