"""amqplib (Node), unmodified; .ci/run brings it."""

import os
import shutil
from pathlib import Path

import pytest
from tests.foreign_clients.amqp_round import CACHE, SAID, amqp_port, shows_a_round
from tests.foreign_clients.compatibility import AMQP
from tests.processes import output_of

MODULES = CACHE / "amqplib" / "node_modules"
PROGRAM = Path(__file__).parent / "amqplib" / "round.js"

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        not (MODULES / "amqplib").is_dir(), reason="amqplib is not in .cache/amqplib: run .ci/run"
    ),
    pytest.mark.skipif(
        shutil.which("node") is None, reason="node is missing: apt-get install nodejs"
    ),
    pytest.mark.client("amqplib", "2.0", AMQP),
    pytest.mark.lacks("transactions", "amqplib has none"),
]


@shows_a_round
def test_a_round(tmp_path: Path) -> None:
    env = {**os.environ, "NODE_PATH": str(MODULES)}
    with amqp_port(tmp_path) as port:
        assert output_of(["node", str(PROGRAM), port], env=env).splitlines() == SAID
