"""Converts librdkafka's and Kafka's errors to core errors.

| Kafka, librdkafka | core |
|---|---|
| UNKNOWN_TOPIC_OR_PARTITION | UnknownTopic, UnknownPartition |
| TOPIC_ALREADY_EXISTS | TopicExists |
| INVALID_CONFIG, INVALID_PARTITIONS, POLICY_VIOLATION ... | InvalidSetting |
| MESSAGE_TOO_LARGE | EventTooLarge |
| REQUEST_TIMED_OUT, a message that timed out | Overloaded |
| KAFKA_STORAGE_ERROR | StorageFull |
| transport, all brokers down, timed out | Unreachable |
"""

from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from mainstem.core import errors
from mainstem.core.errors import MainstemError

GONE = frozenset(
    {
        KafkaError._TRANSPORT,
        # The connection was dropped because the server restarted.
        KafkaError._DESTROY_BROKER,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.NETWORK_EXCEPTION,
    }
)
"""Error codes that mean that the server is unreachable."""
NO_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._NOENT,
    }
)
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
LOST_MEMBERSHIP = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._STATE,
    }
)
"""Error codes that mean that the member was fenced: other members own its partitions."""

_SETTING = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError._INVALID_ARG,
    KafkaError.INVALID_SESSION_TIMEOUT,
}
_BUSY = {
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._QUEUE_FULL,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    # The server restarted after its metadata was read.
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
_PLAIN: dict[int, type[MainstemError]] = {
    **dict.fromkeys(_SETTING, errors.InvalidSetting),
    **dict.fromkeys(_BUSY, errors.Overloaded),
    **dict.fromkeys(LOST_MEMBERSHIP, errors.Fenced),
    KafkaError.KAFKA_STORAGE_ERROR: errors.StorageFull,
    KafkaError.INVALID_MSG: errors.CorruptBatch,
    KafkaError._BAD_MSG: errors.CorruptBatch,
    KafkaError.INVALID_RECORD: errors.InvalidEvent,
}
"""Core errors that have only a message, by Kafka's error code."""


def kafka_error(error: KafkaException | KafkaError) -> KafkaError:
    """Return the KafkaError inside an exception, or the error itself."""
    found = error if isinstance(error, KafkaError) else error.args[0]
    assert isinstance(found, KafkaError)
    return found


class About(NamedTuple):
    """The topic, partition and group of the refused request."""

    topic: str
    partition: int
    group: str
    text: str


_NAMED: dict[int, Callable[[About], MainstemError]] = {
    **dict.fromkeys(NO_TOPIC, lambda it: errors.UnknownTopic(it.topic)),
    KafkaError._UNKNOWN_PARTITION: lambda it: errors.UnknownPartition(it.topic, it.partition),
    KafkaError.TOPIC_ALREADY_EXISTS: lambda it: errors.TopicExists(it.topic),
    KafkaError.TOPIC_EXCEPTION: lambda it: errors.InvalidName("topic", it.topic, it.text),
    KafkaError.INVALID_GROUP_ID: lambda it: errors.InvalidName("group", it.group, it.text),
    KafkaError.GROUP_ID_NOT_FOUND: lambda it: errors.UnknownGroup(it.group),
    KafkaError.NON_EMPTY_GROUP: lambda it: errors.GroupIsLive(
        it.group, "it has members", "changed"
    ),
}
"""Core errors that name a topic, partition or group, by Kafka's error code."""
_REASONS = {
    KafkaError._PURGE_QUEUE: "the connection was lost, and nothing was sent",
    KafkaError._PURGE_INFLIGHT: "the connection was lost, so it is unknown whether it is stored",
}


def core_error(
    error: KafkaError, address: str, *, topic: str = "", partition: int = -1, group: str = ""
) -> MainstemError:
    """Return the core error for an error; it names the topic, partition or group if it can."""
    code, text = error.code(), error.str() or error.name()
    if code in GONE:
        return errors.Unreachable(address, _REASONS.get(code, text))
    if code in _NAMED:
        return _NAMED[code](About(topic, partition, group, text))
    return _PLAIN.get(code, MainstemError)(f"{address} says {error.name()}: {text}")
