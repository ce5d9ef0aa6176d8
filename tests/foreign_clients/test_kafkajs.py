"""KafkaJS, unmodified; .ci/run brings it."""

import os
import shutil
from pathlib import Path

import pytest
from tests.processes import output_of

ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".cache" / "kafkajs" / "node_modules"
PROGRAMS = Path(__file__).parent / "kafkajs"
PATIENCE_S = 120

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        not (MODULES / "kafkajs").is_dir(), reason="KafkaJS is not in .cache/kafkajs: run .ci/run"
    ),
    pytest.mark.skipif(
        shutil.which("node") is None, reason="node is missing: apt-get install nodejs"
    ),
]


def run(program: str, *arguments: str) -> list[str]:
    """Run a program to its end, and return the lines it printed."""
    env = {**os.environ, "NODE_PATH": str(MODULES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return output_of(["node", str(PROGRAMS / program), *arguments], env=env).splitlines()


def test_a_group_whose_offsets_were_reset_reads_again(kafka: str) -> None:
    assert run("reset_offsets.js", kafka, "kafkajs.reset") == [
        "a b c then 3",
        "earliest -2",
        "a b c then 3",
        "latest -1",
    ]
