"""Commands that need a mainstem server are refused clearly for an Apache Kafka."""

from pathlib import Path

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit

COMMANDS = (
    ("queue", "ls"),
    ("queue", "show", "orders"),
    ("queue", "peek", "orders"),
    ("queue", "purge", "orders", "--yes"),
    ("queue", "move", "orders", "later", "--yes"),
    ("queue", "rm", "orders", "--yes"),
    ("exchange", "ls"),
    ("exchange", "show", "amq.topic"),
    ("exchange", "bind", "amq.topic", "orders"),
    ("exchange", "unbind", "amq.topic", "orders"),
)


@pytest.mark.peers
@pytest.mark.skipif(bool(missing()), reason=missing() or "")
def test_queues_and_exchanges_are_refused_for_an_apache_kafka(tmp_path: Path, run: Run) -> None:
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.start()
    try:
        ended = {command: run(*command, "--at", kafka.address) for command in COMMANDS}
    finally:
        kafka.stop()

    assert {done.code for done in ended.values()} == {Exit.REFUSED}
    assert all("is no mainstem server" in done.err for done in ended.values())
