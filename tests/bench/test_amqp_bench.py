"""The comparison with RabbitMQ: its page, and a small run of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.amqp.measuring import Row
from bench.amqp.page import Figures, Section, page
from bench.amqp.systems import OURS, THEIRS, missing

ROOT = Path(__file__).parents[2]


def measured(what: str, case: dict[str, str], ours: list[float], theirs: list[float]) -> Row:
    return Row(what, case, {OURS: ours, THEIRS: theirs})


@pytest.fixture
def figures() -> Figures:
    """One row of throughput meets its aim and one does not; the same for latency."""
    throughput = [
        measured("publish", {"message": "100 B"}, [90, 200, 300], [90, 100, 100]),
        measured("consume", {"message": "1 KB"}, [100, 150, 300], [100, 100, 100]),
    ]
    latency = [
        measured("latency", {"percentile": "p50"}, [150], [200]),
        measured("latency", {"percentile": "p99"}, [900], [600]),
    ]
    return Figures(
        "3.10",
        {"throughput": Section("about", throughput), "latency": Section("about", latency)},
    )


def test_what_falls_short_of_its_aim_is_said(figures: Figures) -> None:
    text = page(figures, window=100)

    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- consume: message 1 KB: 1.50 (aim: 2.0)",
        "- latency: percentile p99: 1.50 (aim: 1.0)",
    ]


def test_a_ratio_is_the_median_of_the_rounds_ratios(figures: Figures) -> None:
    text = page(figures, window=100)

    assert "| 100 B | 200 | 100 | 2.00 |" in text


@pytest.mark.peers
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_everything_is_measured_beside_rabbitmq(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.amqp", "--tiny", "--dir", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    heads = [line for line in done.stdout.splitlines() if line.startswith("## ")]
    assert len(heads) == 7
    rows = [line for line in done.stdout.splitlines() if line.startswith("| 100 B |")]
    # Published, and consumed with three prefetch limits, on one queue and on three.
    assert len(rows) == 2 + 2 * 3
    assert all("| 0 |" not in row for row in rows)
    assert not list(tmp_path.iterdir())
