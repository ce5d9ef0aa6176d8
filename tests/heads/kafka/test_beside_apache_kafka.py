"""What we answer to requests is what Apache Kafka answers to the same ones.

The scenarios are in ``tests/heads/kafka/beside``; those in which we differ on purpose say why.
"""

from collections.abc import Iterator

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.heads.kafka.attack import served
from tests.heads.kafka.beside import (
    classic_cursors,
    classic_groups,
    consumers,
    coordinators,
    cursors,
    fetching,
    idempotent,
    kinds,
    metadata,
    named_often,
    offsets,
    older,
    producing,
    settings,
    share_acks,
    share_members,
    share_offsets,
    share_sessions,
    topic_settings,
    topics,
    transaction_offsets,
    transactions,
)
from tests.heads.kafka.beside.side import ALIKE, UNLIKE, Scenario, Side

TABLES = (
    share_members,
    share_sessions,
    share_acks,
    share_offsets,
    settings,
    consumers,
    cursors,
    kinds,
    older,
    transactions,
    transaction_offsets,
    coordinators,
    classic_groups,
    classic_cursors,
    producing,
    idempotent,
    fetching,
    offsets,
    topics,
    metadata,
    topic_settings,
    named_often,
)
"""Imported, they say what there is to try."""
AT_ONCE = [
    f"group.{kind}.{name}=0"
    for kind in ("consumer", "share")
    for name in ("min.assignment.interval.ms", "assignment.interval.ms")
]
"""Apache Kafka assigns with every change, as we do; by default once a second."""

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    if reason := missing():
        pytest.skip(reason)
    server = ApacheKafka(tmp_path_factory.mktemp("kafka"), more=AT_ONCE)
    server.start()
    try:
        side = Side(server.address)
        yield side
        side.close()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def ours() -> Iterator[Side]:
    with served(None) as address:
        side = Side(address)
        yield side
        side.close()


def _name(scenario: Scenario) -> str:
    return scenario.__name__


@pytest.mark.parametrize("scenario", ALIKE, ids=_name)
def test_both_say_the_same(ours: Side, theirs: Side, scenario: Scenario) -> None:
    expected = list(scenario(theirs))

    found = list(scenario(ours))

    assert found == expected


@pytest.mark.parametrize("scenario", UNLIKE, ids=_name)
def test_we_differ_on_purpose(ours: Side, theirs: Side, scenario: Scenario) -> None:
    expected = list(scenario(theirs))

    found = list(scenario(ours))

    both = list(zip(found, expected, strict=True))
    assert [each for each, other in both if each == other] == [], "no difference any more"
