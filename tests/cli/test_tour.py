"""The tour: it works, says what it promises, and leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_the_tour_ends_well_and_leaves_nothing_behind(tmp_path: Path) -> None:
    tour = subprocess.run(
        [sys.executable, "-m", "mainstem.cli.demo.tour"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (tour.returncode, tour.stderr) == (0, "")
    assert "fsync, 1 copy" in tour.stdout
    assert re.search(r"together 100,000, of which twice: 0", tour.stdout)
    assert re.search(r"acknowledged +[\d,]+\n +found again +[\d,]+\n +lost +0\n", tour.stdout)
    assert list(tmp_path.iterdir()) == []


def test_the_tour_takes_no_arguments() -> None:
    tour = subprocess.run(
        [sys.executable, "-m", "mainstem.cli.demo.tour", "--fast"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert tour.returncode == 2
    assert "usage" in tour.stderr
