"""Fuzzing, guided by coverage: a quarter of a minute for each target, or as long as is asked for.

How much is tried is bounded by time and differs between machines; a test fails only if something
was found. That fuzzing finds what is there to be found is shown by code that was broken for it.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.faults.fuzzing.fuzz_seeds import seeds
from tests.faults.fuzzing.fuzz_targets import TARGETS
from tests.long_runs import LONG

ROOT = Path(__file__).parents[3]
SECONDS = 900 if LONG else 15
BOUNDS = ("-max_len=4096", "-rss_limit_mb=1024", "-timeout=20", "-seed=1")
RUNS = 300_000
"""Many times what it takes to find what is broken here; with the seed above always the same."""

fuzzed = [
    pytest.mark.peers,
    pytest.mark.skipif(
        find_spec("atheris") is None, reason="atheris has no wheel for this machine's Python"
    ),
]
every_target = pytest.mark.parametrize("target", TARGETS)


def fuzz(target: str, corpus: Path, source: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a target to its end in a process of its own, with the package from a directory."""
    paths = os.pathsep.join(map(str, (source, ROOT)))
    command = [
        sys.executable,
        "-m",
        "tests.faults.fuzzing.fuzz",
        target,
        str(corpus),
        *BOUNDS,
        *flags,
    ]
    # Linux counts the memory of a process from before its exec, so a child of this one would begin
    # with the memory of all tests before. A shell's own child does not.
    return subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *command],
        cwd=corpus.parent,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


@every_target
def test_what_is_right_passes(target: str) -> None:
    for seed in seeds(target):
        TARGETS[target](seed)


@every_target
def test_what_is_cut_off_passes(target: str) -> None:
    for seed in seeds(target)[:: 7 if target == "conversations" else 1]:
        for size in range(0, len(seed), max(1, len(seed) // 10)):
            TARGETS[target](seed[:size])


@pytest.mark.timeout(SECONDS + 120)
@every_target
class TestGuidedByCoverage:
    """Marked as a class, so that the markers are in one place."""

    pytestmark = fuzzed

    def test_nothing_is_found(self, target: str, tmp_path: Path) -> None:
        # A long hunt goes on where the last one stopped.
        corpus = ROOT / ".cache" / "fuzz" / target if LONG else tmp_path / "corpus"

        done = fuzz(target, corpus, ROOT / "src", f"-max_total_time={SECONDS}")

        assert done.returncode == 0, done.stdout[-5000:]


BROKEN = {
    "requests": (
        "kafka_protocol/decoders.py",
        "\"str(view[at:stop], 'utf-8')\"",
        "\"str(view[at:stop], 'utf-8', 'surrogateescape')\"",
    ),
    "records": (
        "core/record_parser.py",
        "if number & 1 or not previous < delta <= last_delta:",
        "if number & 1:",
    ),
    "unpacking": ("core/compression.py", "if len(data) - position < 3:", "if not data:"),
    "conversations": (
        "heads/kafka/adapter/apis/metadata.py",
        "except MainstemError as error:\n        results.add(refused(error))",
        "except TopicExists as error:\n        results.add(refused(error))",
    ),
    "amqp": ("heads/amqp091/fields.py", "if at + fixed.size > end:", "if at > end:"),
}
"""Target → a file, a guard in it, and what stands there when the guard is forgotten."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", BROKEN)
class TestBrokenCode:
    """What fuzzing is for."""

    pytestmark = fuzzed

    def test_a_forgotten_guard_is_found(self, target: str, tmp_path: Path) -> None:
        file, guard, instead = BROKEN[target]
        shutil.copytree(ROOT / "src" / "mainstem", tmp_path / "src" / "mainstem")
        broken = tmp_path / "src" / "mainstem" / file
        code = broken.read_text()
        assert code.count(guard) == 1
        broken.write_text(code.replace(guard, instead))

        done = fuzz(target, tmp_path / "corpus", tmp_path / "src", f"-runs={RUNS}")

        assert done.returncode != 0
        assert "Uncaught Python exception" in done.stdout
