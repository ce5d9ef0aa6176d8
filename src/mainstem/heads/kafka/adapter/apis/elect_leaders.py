"""ElectLeaders, versions 0 to 2: the only broker leads every partition."""

from mainstem.auth import CLUSTER, Action
from mainstem.heads.kafka.adapter.partitions import missing_partition
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import replicas as messages


@serves(messages.ELECT_LEADERS, 0, 2)
@requires(Action.ALTER, CLUSTER, messages.ElectLeadersResponse)
def answer(asked: Asked, request: messages.ElectLeadersRequest, reply: Reply) -> None:
    """Return ELECTION_NOT_NEEDED for each partition.

    A request for all partitions gets an empty list, as in Kafka.
    """
    results = [
        messages.ElectedTopic(
            each.topic, [_elected(asked.service, each.topic, n) for n in each.partitions]
        )
        for each in request.topic_partitions or ()
    ]
    reply(messages.ElectLeadersResponse(replica_election_results=results))


def _elected(service: Service, topic: str, number: int) -> messages.ElectedPartition:
    missing = missing_partition(service, topic, number)
    if missing:
        return messages.ElectedPartition(
            number, missing, f"there is no partition {number} of {topic!r:.300}"
        )
    reason = "the only broker leads every partition"
    return messages.ElectedPartition(number, Code.ELECTION_NOT_NEEDED, reason)
