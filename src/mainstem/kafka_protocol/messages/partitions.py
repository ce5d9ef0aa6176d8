"""Structs that many messages contain: partitions by topic, and results by partition."""

from typing import Generic, TypeVar

from mainstem.kafka_protocol.fields import NO_ID, Wire
from mainstem.kafka_protocol.wire import Array, Int16, Int32, String, Uuid

P = TypeVar("P")
"""Type of what a message has for each partition; it has at least the partition's number."""


class ByName(Wire, Generic[P], frozen=True):
    """The partitions of one topic, in messages that name topics ``name``."""

    name: String = ""
    partitions: Array[P] = ()


class ByTopic(Wire, Generic[P], frozen=True):
    """The partitions of one topic, in messages that name topics ``topic``."""

    topic: String = ""
    partitions: Array[P] = ()


class ByTopicName(Wire, Generic[P], frozen=True):
    """The partitions of one topic, in messages that name topics ``topic_name``."""

    topic_name: String = ""
    partitions: Array[P] = ()


class ByTopicId(Wire, Generic[P], frozen=True):
    """The partitions of one topic, identified by its id."""

    topic_id: Uuid = NO_ID
    partitions: Array[P] = ()


class ByNameAndId(Wire, Generic[P], frozen=True):
    """The partitions of one topic, with its name and its id."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    partitions: Array[P] = ()


class PartitionIndexes(Wire, frozen=True):
    """The partition numbers of one topic, as plain integers."""

    name: String = ""
    partition_indexes: Array[Int32] = ()


class PartitionIndex(Wire, frozen=True):
    """A partition number, in messages that have a struct for it."""

    partition_index: Int32 = 0


class PartitionResult(Wire, frozen=True):
    """The partition number and error code of a result."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class ExplainedResult(PartitionResult, frozen=True):
    """The partition number, error code and error message of a result."""

    error_message: String | None = None
