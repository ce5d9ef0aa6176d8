"""Reads answers to ShareFetch and ShareAcknowledge."""

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import share_fetch


def partition_of(
    answer: share_fetch.ShareFetchResponse, number: int = 0
) -> share_fetch.SharedPartition:
    """Return the answer for a partition, an empty one if it is missing."""
    found = [each for topic in answer.responses for each in topic.partitions]
    return next(
        (it for it in found if it.partition_index == number), share_fetch.SharedPartition(number)
    )


def runs(answer: share_fetch.ShareFetchResponse, number: int = 0) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of acquired records."""
    acquired = partition_of(answer, number).acquired_records
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]


def code(answer: object) -> Code:
    """Return the error code of the whole answer."""
    return Code(answer.error_code)  # type: ignore[attr-defined]


def ack_code(answer: share_fetch.ShareAcknowledgeResponse) -> Code:
    """Return the error code of the only partition."""
    (topic,) = answer.responses
    return Code(topic.partitions[0].error_code)
