"""Format of the subscriptions and assignments that consumers exchange in classic groups."""

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
    """Decodes and encodes subscriptions and assignments, in the format of Kafka's consumers."""

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
        """Decode the partitions of a member's assignment; empty if it is malformed."""
        try:
            found = decode_blob(ConsumerProtocolAssignment, assignment)
        except ProtocolError:
            return []
        return _places(found.assigned_partitions)

    def assignment(self, places: Iterable[TopicPartition], metadata: bytes) -> bytes:
        """Encode a member's assignment, in the version of its subscription (``metadata``)."""
        numbers: dict[str, list[int]] = {}
        for name, number in places:
            numbers.setdefault(name, []).append(number)
        topics = [ConsumerPartitions(name, each) for name, each in numbers.items()]
        version = min(int.from_bytes(metadata[:2], "big"), CONSUMER_PROTOCOL_VERSION)
        return encode_blob(version, ConsumerProtocolAssignment(topics))


def _places(topics: Iterable[ConsumerPartitions]) -> list[TopicPartition]:
    return [(topic.topic, number) for topic in topics for number in topic.partitions]
