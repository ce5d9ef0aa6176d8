"""Subscriptions and assignments in classic groups, in the format of Kafka's consumers."""

from collections.abc import Iterable

from mainstem.broker.door import MemberSubscription, TopicPartition
from mainstem.heads.conversation import ProtocolError
from mainstem.kafka_protocol.classic_group_metadata import decode_blob, encode_blob
from mainstem.kafka_protocol.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_VERSION,
    ConsumerPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)


class ConsumerProtocol:
    """Decodes and encodes the data that consumers exchange through the group leader."""

    def subscription(self, metadata: bytes) -> MemberSubscription | None:
        """Decode a member's subscription; None if it is malformed."""
        try:
            found = decode_blob(ConsumerProtocolSubscription, metadata)
        except ProtocolError:
            return None
        return MemberSubscription(
            found.topics, _places(found.owned_partitions), found.rack_id or ""
        )

    def owned(self, assignment: bytes) -> list[TopicPartition]:
        """Decode a member's assignment; nothing if it is malformed."""
        try:
            found = decode_blob(ConsumerProtocolAssignment, assignment)
        except ProtocolError:
            return []
        return _places(found.assigned_partitions)

    def assignment(self, places: Iterable[TopicPartition], metadata: bytes) -> bytes:
        """Encode a member's assignment, in the version of the member's subscription."""
        numbers: dict[str, list[int]] = {}
        for name, number in places:
            numbers.setdefault(name, []).append(number)
        topics = [ConsumerPartitions(name, each) for name, each in numbers.items()]
        version = min(int.from_bytes(metadata[:2], "big"), CONSUMER_PROTOCOL_VERSION)
        return encode_blob(version, ConsumerProtocolAssignment(topics))


def _places(topics: Iterable[ConsumerPartitions]) -> list[TopicPartition]:
    return [(topic.topic, number) for topic in topics for number in topic.partitions]
