"""DescribeCluster, versions 0 to 2: one broker, which is the controller."""

from mainstem.heads.kafka.adapter.authorized_operations import on_cluster
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import metadata as messages


@serves(messages.DESCRIBE_CLUSTER, 0, 2)
def answer(asked: Asked, request: messages.DescribeClusterRequest, reply: Reply) -> None:
    """Return this broker as the only one, and as the controller."""
    service = asked.service
    reply(
        messages.DescribeClusterResponse(
            endpoint_type=request.endpoint_type,
            cluster_id=service.cluster_id,
            controller_id=service.settings.node_id,
            brokers=(messages.ClusterBroker(service.settings.node_id, service.host, service.port),),
            cluster_authorized_operations=on_cluster(request.include_cluster_authorized_operations),
        )
    )
