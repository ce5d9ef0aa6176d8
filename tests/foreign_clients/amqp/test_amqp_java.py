"""RabbitMQ's Java client, unmodified; .ci/run brings it."""

from pathlib import Path

import pytest
from tests.foreign_clients.amqp import amqp_round
from tests.foreign_clients.compatibility import AMQP
from tests.foreign_clients.java_client import NEEDS_JAVAC, command
from tests.processes import output_of

JARS = sorted((amqp_round.CACHE / "amqp-client").glob("*.jar"))

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not JARS, reason="amqp-client is not in .cache/amqp-client: run .ci/run"),
    NEEDS_JAVAC,
    pytest.mark.client("RabbitMQ Java client", "5.25", AMQP),
]


@amqp_round.shows_a_round
@pytest.mark.shows("transactions", "commit, rollback")
def test_a_round(tmp_path: Path) -> None:
    java = command("AmqpRound", tmp_path / "classes", JARS)
    with amqp_round.amqp_port(tmp_path / "data") as port:
        assert output_of([*java, port]).splitlines() == amqp_round.SAID + amqp_round.COMMITTED
