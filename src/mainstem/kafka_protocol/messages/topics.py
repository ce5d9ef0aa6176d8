"""Creating and deleting topics, and adding partitions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, NullSince, Since, Tag, Until, Wire
from mainstem.kafka_protocol.messages.configs import ConfigValue
from mainstem.kafka_protocol.messages.responses import Throttled
from mainstem.kafka_protocol.wire import Array, Bool, Int16, Int32, String, Uuid


class CreateAssignment(Wire, frozen=True):
    """A new partition, and the brokers for its replicas."""

    partition_index: Int32 = 0
    broker_ids: Array[Int32] = ()


class CreateConfig(Wire, frozen=True):
    """A config of the topic to create."""

    name: String = ""
    value: String | None = ""


class CreateTopic(Wire, frozen=True):
    """A topic to create; -1 partitions or replicas: the broker's default."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Array[CreateAssignment] = ()
    configs: Array[CreateConfig] = ()


class CreateTopicsRequest(Wire, frozen=True):
    """Create topics, or only validate the request."""

    topics: Array[CreateTopic] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatedConfig(ConfigValue, frozen=True):
    """A config of the created topic."""


class CreatedTopic(Wire, frozen=True):
    """A created topic, or the error."""

    name: String = ""
    topic_id: Annotated[Uuid, Since(7), IGNORABLE] = NO_ID
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Annotated[Int16, Since(5), Tag(0), IGNORABLE] = 0
    num_partitions: Annotated[Int32, Since(5), IGNORABLE] = -1
    replication_factor: Annotated[Int16, Since(5), IGNORABLE] = -1
    configs: Annotated[Array[CreatedConfig] | None, Since(5), IGNORABLE] = ()


class CreateTopicsResponse(Throttled, frozen=True):
    """For each topic, whether it was created."""

    topics: Array[CreatedTopic] = ()


CREATE_TOPICS = api(19, CreateTopicsRequest, CreateTopicsResponse, "2-7", "5+")


class DeleteTopic(Wire, frozen=True):
    """A topic to delete, by name or id."""

    name: String | None = None
    topic_id: Uuid = NO_ID


class DeleteTopicsRequest(Wire, frozen=True):
    """Delete topics, by name or since version 6 by id."""

    topics: Annotated[Array[DeleteTopic], Since(6)] = ()
    topic_names: Annotated[Array[String], Until(5), IGNORABLE] = ()
    timeout_ms: Int32 = 0


class DeletedTopic(Wire, frozen=True):
    """For one topic, whether it was deleted."""

    name: Annotated[String | None, NullSince(6)] = ""
    topic_id: Annotated[Uuid, Since(6), IGNORABLE] = NO_ID
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(5), IGNORABLE] = None


class DeleteTopicsResponse(Throttled, frozen=True):
    """For each topic, whether it was deleted."""

    responses: Array[DeletedTopic] = ()


DELETE_TOPICS = api(20, DeleteTopicsRequest, DeleteTopicsResponse, "1-6", "4+")


class CreatePartitionsAssignment(Wire, frozen=True):
    """The brokers for the replicas of one new partition."""

    broker_ids: Array[Int32] = ()


class CreatePartitionsTopic(Wire, frozen=True):
    """A topic and its new number of partitions."""

    name: String = ""
    count: Int32 = 0
    assignments: Array[CreatePartitionsAssignment] | None = ()


class CreatePartitionsRequest(Wire, frozen=True):
    """Add partitions to topics."""

    topics: Array[CreatePartitionsTopic] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatedPartitions(Wire, frozen=True):
    """For one topic, whether the partitions were added."""

    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(Throttled, frozen=True):
    """For each topic, whether the partitions were added."""

    results: Array[CreatedPartitions] = ()


CREATE_PARTITIONS = api(37, CreatePartitionsRequest, CreatePartitionsResponse, "0-3", "2+")
