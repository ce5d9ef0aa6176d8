"""Common parts of many messages: partitions by topic, and results by partition."""

from typing import Generic, TypeVar

from mainstem.kafka_protocol.fields import NO_ID, Wire
from mainstem.kafka_protocol.wire import Array, Int16, Int32, String, Uuid

P = TypeVar("P")
"""The fields that a message has for each partition; at least its number."""


class ByName(Wire, Generic[P], frozen=True):
    """Partitions of one topic, in the form of most messages."""

    name: String = ""
    partitions: Array[P] = ()


class ByTopic(Wire, Generic[P], frozen=True):
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[P] = ()


class ByTopicName(Wire, Generic[P], frozen=True):
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: Array[P] = ()


class ByTopicId(Wire, Generic[P], frozen=True):
    """Partitions of one topic, by its id."""

    topic_id: Uuid = NO_ID
    partitions: Array[P] = ()


class ByNameAndId(Wire, Generic[P], frozen=True):
    """Partitions of one topic, by its name and its id."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    partitions: Array[P] = ()


class PartitionIndexes(Wire, frozen=True):
    """Numbers of partitions of one topic."""

    name: String = ""
    partition_indexes: Array[Int32] = ()


class PartitionIndex(Wire, frozen=True):
    """The number of a partition, where a message has a struct for it."""

    partition_index: Int32 = 0


class PartitionResult(Wire, frozen=True):
    """The result of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class ExplainedResult(PartitionResult, frozen=True):
    """The result of one partition, with a message."""

    error_message: String | None = None
