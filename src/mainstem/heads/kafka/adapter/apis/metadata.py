"""Metadata, versions 0 to 13: returns the only broker and topics; may create named topics."""

from msgspec.structs import replace

from mainstem.broker.door import Topic
from mainstem.core.errors import MainstemError
from mainstem.core.names import check_topic
from mainstem.heads.kafka.adapter.authorized_operations import ON_TOPIC, on_cluster
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import find_or_create, id_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages import metadata as messages

_IDS_SINCE = 12
"""First version with topic ids here; 10 and 11 have ids in requests only, so they are not used for
responses [KIP-516].
"""


@serves(messages.METADATA, 0, 13)
def answer(asked: Asked, request: messages.MetadataRequest, reply: Reply) -> None:
    """Return the only broker and the requested topics."""
    service = asked.service
    everything = request.topics is None or (asked.header.api_version == 0 and not request.topics)
    results = Results[messages.MetadataTopic](service)
    if everything:
        for topic in service.broker.topics():
            results.add(_shown(service, topic))
    for each in () if everything else dict.fromkeys(request.topics or ()):
        # The Java client sends an empty name beside the id, not a null one.
        if each.name is None or (not each.name and each.topic_id != NO_ID):
            results.add(_by_id(service, each.topic_id, asked.header.api_version))
        else:
            _add_by_name(service, each.name, request.allow_auto_topic_creation, results)
    node = service.settings.node_id
    wants_allowed = request.include_topic_authorized_operations
    results.then(
        lambda topics: reply(
            messages.MetadataResponse(
                brokers=(messages.MetadataBroker(node, service.host, service.port),),
                cluster_id=service.cluster_id,
                controller_id=node,
                topics=_with_allowed(topics) if wants_allowed else topics,
                cluster_authorized_operations=on_cluster(
                    request.include_cluster_authorized_operations
                ),
            )
        )
    )


def _with_allowed(topics: list[messages.MetadataTopic]) -> list[messages.MetadataTopic]:
    return [replace(each, topic_authorized_operations=ON_TOPIC) for each in topics]


def _add_by_name(
    service: Service, name: str, create: bool, results: Results[messages.MetadataTopic]
) -> None:
    def refused(error: MainstemError) -> messages.MetadataTopic:
        return messages.MetadataTopic(code_of(error), name)

    try:
        check_topic(name, internal=True)
        topic, durable = find_or_create(service, name, create=create)
        results.add_later(durable, _shown(service, topic), refused)
    except MainstemError as error:
        results.add(refused(error))


def _by_id(service: Service, topic_id: bytes, version: int) -> messages.MetadataTopic:
    if version < _IDS_SINCE:
        # A request may have a null name, a response may not.
        return messages.MetadataTopic(Code.INVALID_REQUEST, "", topic_id)
    topic = service.broker.topic_by_id(topic_id.hex())
    if topic is None:
        return messages.MetadataTopic(Code.UNKNOWN_TOPIC_ID, None, topic_id)
    return _shown(service, topic)


def _shown(service: Service, topic: Topic) -> messages.MetadataTopic:
    node = (service.settings.node_id,)
    partitions = tuple(
        messages.MetadataPartition(
            0, number, node[0], service.broker.bounds(topic.name, number).epoch, node, node
        )
        for number in range(len(topic.partitions))
    )
    return messages.MetadataTopic(0, topic.name, id_of(topic), topic.internal, partitions)
