"""What is counted of requests and answers, with every message that there is."""

import pytest
from tests.kafka_protocol.values import EVERY_API, EVERY_API_IDS, filled

from mainstem.heads.kafka.counts import Counts
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.produce import (
    ProducedPartition,
    ProducedTopic,
    ProduceResponse,
)


def codes_in(value: object) -> list[int]:
    """Look for error codes in the slow and simple way."""
    if isinstance(value, list | tuple):
        return [code for each in value for code in codes_in(each)]
    if not isinstance(value, Wire):
        return []
    found: list[int] = []
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        found += [inner] if name == "error_code" and inner else codes_in(inner)
    return found


def test_every_partition_that_was_refused_counts() -> None:
    counts = Counts()
    partitions = [ProducedPartition(number, error_code=number % 3) for number in range(9)]

    counts.answered(0, 9, ProduceResponse((ProducedTopic(partition_responses=partitions),)))
    counts.answered(0, 9, ProduceResponse((ProducedTopic(partition_responses=partitions[:2]),)))

    assert counts.errors == {(0, 1): 4, (0, 2): 3}


@pytest.mark.parametrize(("api", "version"), EVERY_API, ids=EVERY_API_IDS)
def test_errors_are_found_however_deep_they_are_in_an_answer(api: Api, version: int) -> None:
    counts = Counts()
    answer = filled(api.response, version)

    counts.answered(api.key, version, answer)

    assert sum(counts.errors.values()) == len(codes_in(answer))
