"""Elections, reassignments, directories, the quorum: of everything there is one, and it is here."""

from mainstem.broker.door import TOPIC_JOURNAL
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter import log_dirs
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovedPartition,
    MovedTopic,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumTopic,
    ReassignablePartition,
    ReassignedPartition,
    ReassignedTopic,
    Voter,
)

DIRS_FIRST, DIRS_LAST = 1, 2
ELECT_FIRST, ELECT_LAST = 0, 2
REASSIGN_FIRST, REASSIGN_LAST = 0, 1
REASSIGNMENTS_FIRST, REASSIGNMENTS_LAST = 0, 0
QUORUM_FIRST, QUORUM_LAST = 0, 2

_METADATA = "__cluster_metadata"
"""What Kafka calls the log of its metadata; ours is the journal of topics."""


def alter_dirs(asked: Asked, request: AlterReplicaLogDirsRequest, reply: Reply) -> None:
    """Leave partitions where they are, if that is what is wished."""
    service = asked.service
    results = []
    for directory in request.dirs:
        here = directory.path == log_dirs.NAME
        for topic in directory.topics:
            partitions = [
                MovedPartition(
                    number,
                    _missing(service, topic.name, number) if here else Code.LOG_DIR_NOT_FOUND,
                )
                for number in topic.partitions
            ]
            results.append(MovedTopic(topic.name, partitions))
    reply(AlterReplicaLogDirsResponse(results=results))


def elect(asked: Asked, request: ElectLeadersRequest, reply: Reply) -> None:
    """Tell that every partition has its leader; asked about all, Kafka names only the others."""
    results = [
        ElectedTopic(each.topic, [_elected(asked.service, each.topic, n) for n in each.partitions])
        for each in request.topic_partitions or ()
    ]
    reply(ElectLeadersResponse(replica_election_results=results))


def _elected(service: Service, topic: str, number: int) -> ElectedPartition:
    missing = _missing(service, topic, number)
    if missing:
        return ElectedPartition(
            number, missing, f"there is no partition {number} of {topic!r:.300}"
        )
    reason = "the only broker leads every partition"
    return ElectedPartition(number, Code.ELECTION_NOT_NEEDED, reason)


def reassign(asked: Asked, request: AlterPartitionReassignmentsRequest, reply: Reply) -> None:
    """Leave partitions where they are, if that is what is wished."""
    responses = [
        ReassignedTopic(
            each.name, [_reassigned(asked.service, each.name, p) for p in each.partitions]
        )
        for each in request.topics
    ]
    reply(
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            responses=responses,
        )
    )


def _reassigned(service: Service, topic: str, wish: ReassignablePartition) -> ReassignedPartition:
    number, node = wish.partition_index, service.settings.node_id
    missing = _missing(service, topic, number)
    if missing:
        reason = f"there is no partition {number} of {topic!r:.300}"
        return ReassignedPartition(number, missing, reason)
    if wish.replicas is None:
        return ReassignedPartition(number, Code.NO_REASSIGNMENT_IN_PROGRESS, "nothing is moved")
    if tuple(wish.replicas) != (node,):
        reason = f"there is one broker, {node}: name it, and no other"
        return ReassignedPartition(number, Code.INVALID_REPLICA_ASSIGNMENT, reason)
    return ReassignedPartition(number)


def reassignments(asked: Asked, request: ListPartitionReassignmentsRequest, reply: Reply) -> None:
    """Tell that nothing is being moved."""
    reply(ListPartitionReassignmentsResponse())


def quorum(asked: Asked, request: DescribeQuorumRequest, reply: Reply) -> None:
    """Tell who keeps the metadata: we do."""
    service = asked.service
    topics = [
        QuorumTopic(
            topic.topic_name,
            [
                _metadata(service)
                if (topic.topic_name, each.partition_index) == (_METADATA, 0)
                else QuorumPartition(each.partition_index, Code.UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    listener = QuorumListener("PLAINTEXT", service.host, service.port)
    nodes = (QuorumNode(service.settings.node_id, (listener,)),)
    reply(DescribeQuorumResponse(topics=topics, nodes=nodes))


def _metadata(service: Service) -> QuorumPartition:
    node, bounds = service.settings.node_id, service.broker.bounds(TOPIC_JOURNAL, 0)
    voter = Voter(node, log_end_offset=bounds.tail, last_caught_up_timestamp=service.now_ms())
    return QuorumPartition(
        leader_id=node,
        leader_epoch=bounds.epoch,
        high_watermark=bounds.tail,
        current_voters=(voter,),
    )


def _missing(service: Service, topic: str, number: int) -> int:
    """Return 0 for a partition that is here, else the code that says it is not."""
    try:
        service.broker.bounds(topic, number)
    except MainstemError as error:
        return code_of(error)
    return 0
