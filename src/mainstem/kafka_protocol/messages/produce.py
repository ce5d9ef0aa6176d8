"""Appending records to partitions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, Since, Tag, Until, Wire
from mainstem.kafka_protocol.messages.brokers import CurrentLeader, NodeEndpoint
from mainstem.kafka_protocol.wire import Array, Int16, Int32, Int64, Records, String, Uuid


class ProducePartition(Wire, frozen=True):
    """A partition, and the record batches to append to it."""

    index: Int32 = 0
    records: Records | None = None


class ProduceTopic(Wire, frozen=True):
    """The record batches for one topic, which is named by its id since version 13."""

    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    name: Annotated[String, Until(12), IGNORABLE] = ""
    partition_data: Array[ProducePartition] = ()


class ProduceRequest(Wire, frozen=True):
    """Append records to partitions; ``acks``: how many replicas must have stored them."""

    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Array[ProduceTopic] = ()


class RecordError(Wire, frozen=True):
    """A refused record, because of which its whole batch was refused."""

    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class ProducedPartition(Wire, frozen=True):
    """The offset at which a partition's records were appended, or the error."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    record_errors: Annotated[Array[RecordError], Since(8), IGNORABLE] = ()
    error_message: Annotated[String | None, Since(8), IGNORABLE] = None
    current_leader: Annotated[CurrentLeader, Since(10), Tag(0)] = CurrentLeader()


class ProducedTopic(Wire, frozen=True):
    """The results for the partitions of one topic."""

    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    name: Annotated[String, Until(12), IGNORABLE] = ""
    partition_responses: Array[ProducedPartition] = ()


class ProduceResponse(Wire, frozen=True):
    """For each partition, the offset of its records, or the error."""

    responses: Array[ProducedTopic] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[Array[NodeEndpoint], Since(10), Tag(0)] = ()


PRODUCE = api(0, ProduceRequest, ProduceResponse, "3-13", "9+")
