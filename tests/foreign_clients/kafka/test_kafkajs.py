"""KafkaJS, unmodified; .ci/run brings it."""

from pathlib import Path

from tests.foreign_clients.node_client import needed, node

PROGRAMS = Path(__file__).parents[1] / "kafkajs"

pytestmark = needed("kafkajs", "KafkaJS")


def run(program: str, *arguments: str) -> list[str]:
    """Run a program to its end, and return the lines it printed."""
    return node("kafkajs", PROGRAMS / program, *arguments, KAFKAJS_NO_PARTITIONER_WARNING="1")


def test_a_group_whose_offsets_were_reset_reads_again(kafka: str) -> None:
    assert run("reset_offsets.js", kafka, "kafkajs.reset") == [
        "a b c then 3",
        "earliest -2",
        "a b c then 3",
        "latest -1",
    ]
