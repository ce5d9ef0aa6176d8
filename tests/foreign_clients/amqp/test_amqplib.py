"""amqplib (Node), unmodified; .ci/run brings it."""

from pathlib import Path

import pytest
from tests.foreign_clients.amqp.amqp_round import SAID, amqp_port, shows_a_round
from tests.foreign_clients.compatibility import AMQP
from tests.foreign_clients.node_client import needed, node

PROGRAM = Path(__file__).parents[1] / "amqplib" / "round.js"

pytestmark = [
    *needed("amqplib", "amqplib"),
    pytest.mark.client("amqplib", "2.0", AMQP),
    pytest.mark.lacks("transactions", "amqplib has none"),
]


@shows_a_round
def test_a_round(tmp_path: Path) -> None:
    with amqp_port(tmp_path) as port:
        assert node("amqplib", PROGRAM, port) == SAID
