"""AlterPartitionReassignments, versions 0 to 1: all partitions stay on the only broker."""

from functools import partial

from mainstem.auth import CLUSTER, Action
from mainstem.heads.kafka.adapter.partitions import each_partition, missing_partition
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import replicas as messages


@serves(messages.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
@requires(Action.ALTER, CLUSTER, messages.AlterPartitionReassignmentsResponse)
def answer(
    asked: Asked, request: messages.AlterPartitionReassignmentsRequest, reply: Reply
) -> None:
    """Accept reassignments to the only broker, which change nothing; refuse all others."""
    responses = each_partition(request.topics, partial(_reassigned, asked.service))
    reply(
        messages.AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            responses=responses,
        )
    )


def _reassigned(
    service: Service, topic: str, wish: messages.ReassignablePartition
) -> messages.ReassignedPartition:
    number, node = wish.partition_index, service.settings.node_id
    missing = missing_partition(service, topic, number)
    if missing:
        reason = f"there is no partition {number} of {topic!r:.300}"
        return messages.ReassignedPartition(number, missing, reason)
    if wish.replicas is None:
        return messages.ReassignedPartition(
            number, Code.NO_REASSIGNMENT_IN_PROGRESS, "nothing is moved"
        )
    if tuple(wish.replicas) != (node,):
        reason = f"there is one broker, {node}: name it, and no other"
        return messages.ReassignedPartition(number, Code.INVALID_REPLICA_ASSIGNMENT, reason)
    return messages.ReassignedPartition(number)
