"""Metadata, DescribeCluster: one broker, and the topics it has."""

from mainstem.broker.topics import Topic
from mainstem.core.errors import MainstemError, TopicExists, UnknownTopic
from mainstem.core.names import is_internal
from mainstem.heads.kafka.adapter.errors import Code, code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topic_ids import id_of
from mainstem.heads.kafka.fields import NO_ID
from mainstem.heads.kafka.messages.metadata import (
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)

FIRST, LAST = 0, 13
CLUSTER_FIRST, CLUSTER_LAST = 0, 2
_IDS_SINCE = 12
"""Versions 10 and 11 have topic ids in the request, and no way to answer by them [KIP-516]."""


def answer(asked: Asked, request: MetadataRequest, reply: Reply) -> None:
    """Tell where everything is: here."""
    service = asked.service
    everything = request.topics is None or (asked.header.api_version == 0 and not request.topics)
    if everything:
        topics = [_shown(service, topic) for topic in service.broker.topics()]
    else:
        topics = [
            _by_id(service, each.topic_id, asked.header.api_version)
            # The Java client sends an empty name beside the id, not a null one.
            if each.name is None or (not each.name and each.topic_id != NO_ID)
            else _by_name(service, each.name, request.allow_auto_topic_creation)
            for each in request.topics or ()
        ]
    node = service.settings.node_id
    reply(
        MetadataResponse(
            brokers=(MetadataBroker(node, service.host, service.port),),
            cluster_id=service.cluster_id,
            controller_id=node,
            topics=topics,
        )
    )


def cluster(asked: Asked, request: DescribeClusterRequest, reply: Reply) -> None:
    """Tell who is in the cluster: we are."""
    service = asked.service
    reply(
        DescribeClusterResponse(
            endpoint_type=request.endpoint_type,
            cluster_id=service.cluster_id,
            controller_id=service.settings.node_id,
            brokers=(ClusterBroker(service.settings.node_id, service.host, service.port),),
        )
    )


def find_or_create(service: Service, name: str, *, create: bool) -> Topic:
    """Return a topic; one that is only named is created, if the head is set to do so."""
    try:
        return service.broker.topic(name)
    except UnknownTopic:
        if not (create and service.settings.auto_create) or is_internal(name):
            raise
    settings = service.defaults.altered(partitions=service.settings.auto_create_partitions)
    try:
        return service.broker.create_topic(name, settings).topic
    except TopicExists:
        return service.broker.topic(name)


def _by_name(service: Service, name: str, create: bool) -> MetadataTopic:
    try:
        return _shown(service, find_or_create(service, name, create=create))
    except MainstemError as error:
        return MetadataTopic(code_of(error), name)


def _by_id(service: Service, topic_id: bytes, version: int) -> MetadataTopic:
    if version < _IDS_SINCE:
        # A null can be asked for, and not be answered.
        return MetadataTopic(Code.INVALID_REQUEST, "", topic_id)
    topic = service.broker.topic_by_id(topic_id.hex())
    if topic is None:
        return MetadataTopic(Code.UNKNOWN_TOPIC_ID, None, topic_id)
    return _shown(service, topic)


def _shown(service: Service, topic: Topic) -> MetadataTopic:
    node = (service.settings.node_id,)
    partitions = tuple(
        MetadataPartition(
            0, number, node[0], service.broker.bounds(topic.name, number).epoch, node, node
        )
        for number in range(len(topic.partitions))
    )
    return MetadataTopic(0, topic.name, id_of(topic), topic.internal, partitions)
