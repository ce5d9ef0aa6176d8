"""What we answer to requests is what Apache Kafka answers to the same ones.

The scenarios are in ``tests/heads/kafka/parity``; those in which we differ on purpose say why.
"""

from collections.abc import Iterator

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.heads.kafka.parity import (
    classic_group_admin,
    classic_groups,
    classic_requests_to_new_groups,
    consumer_groups,
    coordinators,
    duplicate_names,
    fetch,
    group_configs,
    group_offsets,
    idempotent,
    metadata,
    mixed_group_types,
    offsets,
    produce,
    share_acks,
    share_members,
    share_offsets,
    share_sessions,
    topic_configs,
    topics,
    transaction_offsets,
    transactions,
)
from tests.heads.kafka.parity.compared_server import ALIKE, UNLIKE, Scenario, Side
from tests.heads.kafka.raw_peers import served

TABLES = (
    share_members,
    share_sessions,
    share_acks,
    share_offsets,
    group_configs,
    consumer_groups,
    group_offsets,
    mixed_group_types,
    classic_requests_to_new_groups,
    transactions,
    transaction_offsets,
    coordinators,
    classic_groups,
    classic_group_admin,
    produce,
    idempotent,
    fetch,
    offsets,
    topics,
    metadata,
    topic_configs,
    duplicate_names,
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
