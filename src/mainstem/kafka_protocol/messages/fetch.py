"""Reading records from partitions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, Since, Tag, Until, Wire
from mainstem.kafka_protocol.messages.brokers import CurrentLeader, NodeEndpoint
from mainstem.kafka_protocol.wire import Array, Int8, Int16, Int32, Int64, Records, String, Uuid


class FetchingReplica(Wire, frozen=True):
    """The replica that sends the fetch; consumers leave this unset."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Wire, frozen=True):
    """A partition to fetch: start offset and maximum size."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(17), Tag(0), IGNORABLE] = NO_ID
    high_watermark: Annotated[Int64, Since(18), Tag(1), IGNORABLE] = 2**63 - 1


class TopicOfFetch(Wire, frozen=True):
    """A topic, named by its id since version 13."""

    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    topic: Annotated[String, Until(12), IGNORABLE] = ""


class FetchTopic(TopicOfFetch, frozen=True):
    """The partitions to fetch in one topic, which is named by its id since version 13."""

    partitions: Array[FetchPartition] = ()


class ForgottenTopic(TopicOfFetch, frozen=True):
    """Partitions that the fetch session no longer reads."""

    partitions: Array[Int32] = ()


class FetchRequest(Wire, frozen=True):
    """Read records of many partitions; the broker waits a limited time for ``min_bytes``."""

    cluster_id: Annotated[String | None, Since(12), Tag(0), IGNORABLE] = None
    replica_state: Annotated[FetchingReplica, Since(15), Tag(1)] = FetchingReplica()
    replica_id: Annotated[Int32, Until(14)] = -1
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Since(7), IGNORABLE] = 0
    session_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    topics: Array[FetchTopic] = ()
    forgotten_topics_data: Annotated[Array[ForgottenTopic], Since(7)] = ()
    rack_id: Annotated[String, Since(11), IGNORABLE] = ""


class EpochEnd(Wire, frozen=True):
    """After divergence: the last epoch that consumer and log have in common, and its end offset."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class SnapshotId(Wire, frozen=True):
    """The snapshot of the cluster's metadata log that the replica should fetch instead."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Wire, frozen=True):
    """An aborted transaction: its producer and first offset."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


class FetchedPartition(Wire, frozen=True):
    """The records of one partition, with its high watermark and other offsets."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    diverging_epoch: Annotated[EpochEnd, Since(12), Tag(0)] = EpochEnd()
    current_leader: Annotated[CurrentLeader, Since(12), Tag(1)] = CurrentLeader()
    snapshot_id: Annotated[SnapshotId, Since(12), Tag(2)] = SnapshotId()
    aborted_transactions: Array[AbortedTransaction] | None = ()
    preferred_read_replica: Annotated[Int32, Since(11)] = -1
    records: Records | None = None


class FetchedTopic(TopicOfFetch, frozen=True):
    """The fetched partitions of one topic."""

    partitions: Array[FetchedPartition] = ()


class FetchResponse(Wire, frozen=True):
    """Records of many partitions; in a fetch session only the partitions with changes."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(7), IGNORABLE] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: Array[FetchedTopic] = ()
    node_endpoints: Annotated[Array[NodeEndpoint], Since(16), Tag(0)] = ()


FETCH = api(1, FetchRequest, FetchResponse, "4-18", "12+")
