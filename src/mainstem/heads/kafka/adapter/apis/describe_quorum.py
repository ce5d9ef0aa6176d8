"""DescribeQuorum, versions 0 to 2: this broker is the only voter."""

from mainstem.auth import CLUSTER, Action
from mainstem.broker.door import TOPIC_JOURNAL
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import quorum as messages

_METADATA = "__cluster_metadata"
"""Kafka's name of its metadata log; here it stands for the journal of topics."""


@serves(messages.DESCRIBE_QUORUM, 0, 2)
@requires(Action.DESCRIBE, CLUSTER, messages.DescribeQuorumResponse)
def answer(asked: Asked, request: messages.DescribeQuorumRequest, reply: Reply) -> None:
    """Return this broker as leader and only voter."""
    service = asked.service
    topics = [
        messages.QuorumTopic(
            topic.topic_name,
            [
                _metadata(service)
                if (topic.topic_name, each.partition_index) == (_METADATA, 0)
                else messages.QuorumPartition(each.partition_index, Code.UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    listener = messages.QuorumListener("PLAINTEXT", service.host, service.port)
    nodes = (messages.QuorumNode(service.settings.node_id, (listener,)),)
    reply(messages.DescribeQuorumResponse(topics=topics, nodes=nodes))


def _metadata(service: Service) -> messages.QuorumPartition:
    node, bounds = service.settings.node_id, service.broker.bounds(TOPIC_JOURNAL, 0)
    voter = messages.Voter(
        node, log_end_offset=bounds.tail, last_caught_up_timestamp=service.now_ms()
    )
    return messages.QuorumPartition(
        leader_id=node,
        leader_epoch=bounds.epoch,
        high_watermark=bounds.tail,
        current_voters=(voter,),
    )
