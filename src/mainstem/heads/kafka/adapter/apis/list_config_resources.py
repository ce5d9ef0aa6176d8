"""ListConfigResources, versions 0 to 1: the topics, groups and broker that have configs."""

from mainstem.auth import CLUSTER, Action
from mainstem.heads.kafka.adapter.configs.config_changes import (
    BROKER,
    GROUP,
    TOPIC,
    WITHOUT_CONFIGS,
)
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import configs as messages


@serves(messages.LIST_CONFIG_RESOURCES, 0, 1)
@requires(Action.DESCRIBE, CLUSTER, messages.ListConfigResourcesResponse)
def answer(asked: Asked, request: messages.ListConfigResourcesRequest, reply: Reply) -> None:
    """List the topics, groups and broker of the requested types.

    Version 0 lists client metrics only, which do not exist here.
    """
    service = asked.service
    if asked.header.api_version == 0:
        reply(messages.ListConfigResourcesResponse())
        return
    kinds = set(request.resource_types) or {TOPIC, BROKER, GROUP}
    if kinds - {TOPIC, BROKER, GROUP} - WITHOUT_CONFIGS:
        reply(messages.ListConfigResourcesResponse(error_code=Code.UNSUPPORTED_VERSION))
        return
    found: list[messages.ConfigResource] = []
    if TOPIC in kinds:
        found += [messages.ConfigResource(each.name, TOPIC) for each in service.broker.topics()]
    if BROKER in kinds:
        found.append(messages.ConfigResource(str(service.settings.node_id), BROKER))
    if GROUP in kinds:
        names = service.broker.group_configs.names()
        found += [messages.ConfigResource(each, GROUP) for each in names]
    reply(messages.ListConfigResourcesResponse(config_resources=found))
