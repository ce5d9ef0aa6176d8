"""amqp091-go, unmodified; .ci/run brings it."""

import os
import shutil
from pathlib import Path

import pytest
from tests.foreign_clients.amqp import amqp_round
from tests.foreign_clients.compatibility import AMQP
from tests.processes import output_of

MODULES = amqp_round.CACHE / "go"
PROGRAM = Path(__file__).parents[1] / "go"

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        not (MODULES / "github.com" / "rabbitmq").is_dir(),
        reason="amqp091-go is not in .cache/go: run .ci/run",
    ),
    pytest.mark.skipif(
        shutil.which("go") is None, reason="go is missing: apt-get install golang-go"
    ),
    pytest.mark.client("amqp091-go", "1.10", AMQP),
]


@amqp_round.shows_a_round
@pytest.mark.shows("transactions", "commit, rollback")
def test_a_round(tmp_path: Path) -> None:
    env = {**os.environ, "GOMODCACHE": str(MODULES), "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    with amqp_round.amqp_port(tmp_path) as port:
        said = output_of(["go", "run", ".", port], env=env, cwd=PROGRAM)

    assert said.splitlines() == amqp_round.SAID + amqp_round.COMMITTED
