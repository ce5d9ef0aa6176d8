"""Every error of Kafka's becomes the core error of the same fact."""

import pytest
from confluent_kafka import KafkaError

from mainstem.core import errors
from mainstem.remote.errors import core_error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.UnknownTopic),
        (KafkaError._UNKNOWN_PARTITION, errors.UnknownPartition),
        (KafkaError.TOPIC_ALREADY_EXISTS, errors.TopicExists),
        (KafkaError.TOPIC_EXCEPTION, errors.InvalidName),
        (KafkaError.INVALID_GROUP_ID, errors.InvalidName),
        (KafkaError.GROUP_ID_NOT_FOUND, errors.UnknownGroup),
        (KafkaError.NON_EMPTY_GROUP, errors.GroupIsLive),
        (KafkaError.INVALID_CONFIG, errors.InvalidSetting),
        (KafkaError.INVALID_PARTITIONS, errors.InvalidSetting),
        (KafkaError.REQUEST_TIMED_OUT, errors.Overloaded),
        (KafkaError._MSG_TIMED_OUT, errors.Overloaded),
        (KafkaError.NOT_ENOUGH_REPLICAS, errors.Overloaded),
        (KafkaError.FENCED_LEADER_EPOCH, errors.Overloaded),
        (KafkaError.KAFKA_STORAGE_ERROR, errors.StorageFull),
        (KafkaError.INVALID_RECORD, errors.InvalidEvent),
        (KafkaError.ILLEGAL_GENERATION, errors.Fenced),
        (KafkaError._ALL_BROKERS_DOWN, errors.Unreachable),
        (KafkaError._TRANSPORT, errors.Unreachable),
        (KafkaError._DESTROY_BROKER, errors.Unreachable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.MainstemError),
    ],
)
def test_the_core_error_says_the_same(code: int, expected: type[errors.MainstemError]) -> None:
    error = core_error(KafkaError(code), "host:9092", topic="orders", partition=3, group="billing")

    assert type(error) is expected


def test_what_has_no_name_of_ours_keeps_theirs() -> None:
    error = core_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "host:9092")

    assert "host:9092" in str(error)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
