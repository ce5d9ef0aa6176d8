"""DescribeConfigs, versions 1 to 4: configs of topics, groups and the broker."""

from mainstem.auth import CLUSTER, Action
from mainstem.broker.door import GROUP_CONFIGS
from mainstem.core.errors import InvalidName, MainstemError
from mainstem.core.names import check_topic
from mainstem.heads.kafka.adapter.configs import topic_configs
from mainstem.heads.kafka.adapter.configs.config_changes import BROKER, GROUP, TOPIC
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.messages import configs as messages
from mainstem.kafka_protocol.topic_configs import ConfigSource, ConfigType

_TYPES = {bool: ConfigType.BOOLEAN, int: ConfigType.INT, str: ConfigType.TEXT}


@serves(messages.DESCRIBE_CONFIGS, 1, 4)
def answer(asked: Asked, request: messages.DescribeConfigsRequest, reply: Reply) -> None:
    """Describe the configs of topics, groups and the broker."""
    results = [_described(asked.service, each) for each in request.resources]
    reply(messages.DescribeConfigsResponse(results=results))


def _described(
    service: Service, asked: messages.DescribeConfigsResource
) -> messages.DescribedConfigs:
    try:
        shown = _shown(service, asked.resource_type, asked.resource_name)
    except MainstemError as error:
        return messages.DescribedConfigs(
            code_of(error), str(error), asked.resource_type, asked.resource_name
        )
    wanted = set(asked.configuration_keys or ())
    if wanted:
        shown = [each for each in shown if each.name in wanted]
    return messages.DescribedConfigs(0, None, asked.resource_type, asked.resource_name, shown)


def _shown(service: Service, kind: int, name: str) -> list[messages.DescribedConfig]:
    if kind == TOPIC:
        check_topic(name, internal=True)
        settings = service.broker.topic(name).settings
        return [
            messages.DescribedConfig(
                each.name,
                each.value,
                False,
                each.source,
                config_type=each.type,
            )
            for each in topic_configs.shown(settings)
        ]
    if kind == BROKER:
        service.may(Action.DESCRIBE, CLUSTER)
        return [
            messages.DescribedConfig(
                key,
                str(value),
                True,
                ConfigSource.BROKER,
                config_type=ConfigType.INT if isinstance(value, int) else ConfigType.TEXT,
            )
            for key, value in _of_broker(service).items()
        ]
    if kind == GROUP:
        if not name:
            raise InvalidName("resource", name, "it is empty")
        return [
            messages.DescribedConfig(
                key,
                value,
                False,
                ConfigSource.DEFAULT if default else ConfigSource.GROUP,
                config_type=_TYPES[GROUP_CONFIGS[key].kind],
                documentation=GROUP_CONFIGS[key].about,
            )
            for key, value, default in service.broker.group_configs.shown(name)
        ]
    raise InvalidName("resource", name, f"resources of type {kind} have no configs here")


def _of_broker(service: Service) -> dict[str, int | str]:
    """Return the broker's configs by their Kafka names; clients cannot change them."""
    own, limits = service.settings, service.broker.limits
    ours: dict[str, int | str] = {"mainstem.run.id": service.run_id}
    if service.admin is not None:
        ours["mainstem.admin.address"] = service.admin
    return ours | {
        "node.id": own.node_id,
        "broker.id": own.node_id,
        "listeners": f"PLAINTEXT://{service.host}:{service.port}",
        "advertised.listeners": f"PLAINTEXT://{service.host}:{service.port}",
        "auto.create.topics.enable": str(service.auto_create).lower(),
        "num.partitions": own.auto_create_partitions,
        "default.replication.factor": 1,
        "socket.request.max.bytes": own.max_frame_bytes,
        "fetch.max.bytes": own.max_fetch_bytes,
        "max.connections": own.max_connections,
        "max.incremental.fetch.session.cache.slots": own.max_fetch_sessions,
        "group.initial.rebalance.delay.ms": limits.groups.initial_delay_ms,
        "group.min.session.timeout.ms": limits.groups.min_session_timeout_ms,
        "group.max.session.timeout.ms": limits.groups.max_session_timeout_ms,
        "group.max.size": limits.groups.max_members,
        "producer.id.expiration.ms": limits.producers.expire_ms,
        "transaction.max.timeout.ms": limits.transactions.max_timeout_ms,
        "transactional.id.expiration.ms": limits.transactions.expire_ms,
    }
