"""Share groups: acquiring records and settling them [KIP-932]."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, Since, Wire
from mainstem.kafka_protocol.messages.brokers import CurrentLeader, NodeEndpoint
from mainstem.kafka_protocol.messages.partitions import ByTopicId
from mainstem.kafka_protocol.messages.responses import ExplainedError
from mainstem.kafka_protocol.wire import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
)


class Acknowledgement(Wire, frozen=True):
    """Acknowledge types for a range of offsets: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Array[Int8] = ()


class ShareFetchPartition(Wire, frozen=True):
    """A partition to fetch, and acknowledgements of records acquired from it before."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[Acknowledgement] = ()


ShareFetchTopic = ByTopicId[ShareFetchPartition]
ForgottenShareTopic = ByTopicId[Int32]


class ShareFetchRequest(Wire, frozen=True):
    """Acquire records, and acknowledge records that were acquired before."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, Since(2)] = 0
    is_renew_ack: Annotated[Bool, Since(2)] = False
    topics: Array[ShareFetchTopic] = ()
    forgotten_topics_data: Array[ForgottenShareTopic] = ()


class AcquiredRecords(Wire, frozen=True):
    """A range of acquired offsets with its delivery count."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class SharedPartition(Wire, frozen=True):
    """The records of one partition, and which of them are acquired."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: CurrentLeader = CurrentLeader()
    records: Records = b""
    acquired_records: Array[AcquiredRecords] = ()


class SharedTopic(Wire, frozen=True):
    """The acquired records of one topic."""

    topic_id: Uuid = NO_ID
    partitions: Array[SharedPartition] = ()


class ShareFetchResponse(ExplainedError, frozen=True):
    """The acquired records, and the results of acknowledgements."""

    acquisition_lock_timeout_ms: Int32 = 0
    responses: Array[SharedTopic] = ()
    node_endpoints: Array[NodeEndpoint] = ()


SHARE_FETCH = api(78, ShareFetchRequest, ShareFetchResponse, "1-2", "1+")


class AcknowledgePartition(Wire, frozen=True):
    """The acknowledgements of one partition."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[Acknowledgement] = ()


AcknowledgeTopic = ByTopicId[AcknowledgePartition]


class ShareAcknowledgeRequest(Wire, frozen=True):
    """Acknowledge acquired records."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Bool, Since(2)] = False
    topics: Array[AcknowledgeTopic] = ()


class AcknowledgedPartition(Wire, frozen=True):
    """The result of the acknowledgements in one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: CurrentLeader = CurrentLeader()


AcknowledgedTopic = ByTopicId[AcknowledgedPartition]


class ShareAcknowledgeResponse(ExplainedError, frozen=True):
    """The results of the acknowledgements, by partition."""

    acquisition_lock_timeout_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    responses: Array[AcknowledgedTopic] = ()
    node_endpoints: Array[NodeEndpoint] = ()


SHARE_ACKNOWLEDGE = api(79, ShareAcknowledgeRequest, ShareAcknowledgeResponse, "1-2", "1+")
