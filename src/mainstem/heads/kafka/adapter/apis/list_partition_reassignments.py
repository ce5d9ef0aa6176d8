"""ListPartitionReassignments, version 0: none, ever."""

from mainstem.auth import CLUSTER, Action
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages.replicas import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@serves(LIST_PARTITION_REASSIGNMENTS, 0, 0)
@requires(Action.DESCRIBE, CLUSTER, ListPartitionReassignmentsResponse)
def answer(asked: Asked, request: ListPartitionReassignmentsRequest, reply: Reply) -> None:
    """Return no reassignments."""
    reply(ListPartitionReassignmentsResponse())
