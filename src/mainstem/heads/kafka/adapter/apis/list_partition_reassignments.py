"""ListPartitionReassignments, version 0: always empty."""

from mainstem.auth import CLUSTER, Action
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import replicas as messages


@serves(messages.LIST_PARTITION_REASSIGNMENTS, 0, 0)
@requires(Action.DESCRIBE, CLUSTER, messages.ListPartitionReassignmentsResponse)
def answer(asked: Asked, request: messages.ListPartitionReassignmentsRequest, reply: Reply) -> None:
    """Return an empty list of reassignments."""
    reply(messages.ListPartitionReassignmentsResponse())
