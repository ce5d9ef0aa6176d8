"""What a share group's member was answered, in the terms of tests."""

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import share_fetch


def partition_of(
    answer: share_fetch.ShareFetchResponse, number: int = 0
) -> share_fetch.SharedPartition:
    """Return what was said of a partition, nothing if it was not mentioned."""
    found = [each for topic in answer.responses for each in topic.partitions]
    return next(
        (it for it in found if it.partition_index == number), share_fetch.SharedPartition(number)
    )


def runs(answer: share_fetch.ShareFetchResponse, number: int = 0) -> list[tuple[int, int, int]]:
    """Return first, last and count of what was acquired of a partition."""
    acquired = partition_of(answer, number).acquired_records
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]


def code(answer: object) -> Code:
    """Return what was said to a whole request."""
    return Code(answer.error_code)  # type: ignore[attr-defined]


def ack_code(answer: share_fetch.ShareAcknowledgeResponse) -> Code:
    """Return what was said to the acknowledgements of the only partition."""
    (topic,) = answer.responses
    return Code(topic.partitions[0].error_code)
