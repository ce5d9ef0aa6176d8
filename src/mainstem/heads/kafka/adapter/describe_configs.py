"""DescribeConfigs, AlterConfigs and their like: settings of topics, groups and the broker."""

from collections import Counter
from collections.abc import Iterable, Sequence

from mainstem.auth import CLUSTER, Action
from mainstem.broker.door import AT_ONCE, GROUP_CONFIGS, Durable
from mainstem.core.errors import InvalidName, InvalidSetting, MainstemError
from mainstem.core.names import check_topic
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.kafka.adapter import topic_configs
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.parts import Parts
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfigs,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedConfigs,
    IncrementalAlter,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from mainstem.kafka_protocol.topic_configs import ConfigSource, ConfigType

DESCRIBE_FIRST, DESCRIBE_LAST = 1, 4
ALTER_FIRST, ALTER_LAST = 0, 2
INCREMENTAL_FIRST, INCREMENTAL_LAST = 0, 1
LIST_FIRST, LIST_LAST = 0, 1

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_WITHOUT_ANY = frozenset({8, 16})
"""Loggers of brokers and metrics of clients: nothing can be set for them here."""
_TYPES = {bool: ConfigType.BOOLEAN, int: ConfigType.INT, str: ConfigType.TEXT}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe(asked: Asked, request: DescribeConfigsRequest, reply: Reply) -> None:
    """Show the settings of topics, groups and the broker."""
    results = [_described(asked.service, each) for each in request.resources]
    reply(DescribeConfigsResponse(results=results))


def _described(service: Service, asked: DescribeConfigsResource) -> DescribedConfigs:
    try:
        shown = _shown(service, asked.resource_type, asked.resource_name)
    except MainstemError as error:
        return DescribedConfigs(
            code_of(error), str(error), asked.resource_type, asked.resource_name
        )
    wanted = set(asked.configuration_keys or ())
    if wanted:
        shown = [each for each in shown if each.name in wanted]
    return DescribedConfigs(0, None, asked.resource_type, asked.resource_name, shown)


def _shown(service: Service, kind: int, name: str) -> list[DescribedConfig]:
    if kind == _TOPIC:
        check_topic(name, internal=True)
        settings = service.broker.topic(name).settings
        return [
            DescribedConfig(
                each.name,
                each.value,
                False,
                each.source,
                config_type=each.type,
            )
            for each in topic_configs.shown(settings)
        ]
    if kind == _BROKER:
        service.may(Action.DESCRIBE, CLUSTER)
        return [
            DescribedConfig(
                key,
                str(value),
                True,
                ConfigSource.BROKER,
                config_type=ConfigType.INT if isinstance(value, int) else ConfigType.TEXT,
            )
            for key, value in _of_broker(service).items()
        ]
    if kind == _GROUP:
        if not name:
            raise InvalidName("resource", name, "it is empty")
        return [
            DescribedConfig(
                key,
                value,
                False,
                ConfigSource.DEFAULT if default else ConfigSource.GROUP,
                config_type=_TYPES[GROUP_CONFIGS[key].kind],
                documentation=GROUP_CONFIGS[key].about,
            )
            for key, value, default in service.broker.group_configs.shown(name)
        ]
    raise InvalidName("resource", name, f"what is of type {kind} has no settings here")


def _of_broker(service: Service) -> dict[str, int | str]:
    """Return what is set at the start, by the names that Kafka has for it."""
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


def alter(asked: Asked, request: AlterConfigsRequest, reply: Reply) -> None:
    """Replace all settings of topics or groups: what is not named is by default again."""
    parts = Parts[AlteredConfigs](asked.service)
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        names = [entry.name for entry in each.configs]
        named = ((entry.name, entry.value) for entry in each.configs)
        only = request.validate_only
        _attempt(parts, asked.service, resource, names, named, fresh=True, validate_only=only)
    parts.then(lambda responses: reply(AlterConfigsResponse(responses=responses)))


def alter_some(asked: Asked, request: IncrementalAlterConfigsRequest, reply: Reply) -> None:
    """Change the settings that are named."""
    parts = Parts[AlteredConfigs](asked.service)
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        if counts[resource] > 1 or any(map(_lacks_value, each.configs)):
            message = "a resource is named twice" if counts[resource] > 1 else "a value is missing"
            parts.add(AlteredConfigs(Code.INVALID_REQUEST, message, *resource))
            continue
        names = [entry.name for entry in each.configs]
        named = (_change(asked.service, resource, entry) for entry in each.configs)
        only = request.validate_only
        _attempt(parts, asked.service, resource, names, named, fresh=False, validate_only=only)
    parts.then(lambda responses: reply(IncrementalAlterConfigsResponse(responses=responses)))


def _lacks_value(entry: IncrementalAlter) -> bool:
    return entry.value is None and entry.config_operation != _DELETE


def _attempt(
    parts: Parts[AlteredConfigs],
    service: Service,
    resource: tuple[int, str],
    names: Sequence[str],
    named: Iterable[tuple[str, str | None]],
    *,
    fresh: bool,
    validate_only: bool,
) -> None:
    """Change settings of a topic or group, and say how that went."""
    wrong = _wrong(resource, names)
    if wrong is not None:
        parts.add(AlteredConfigs(Code.INVALID_REQUEST, wrong, *resource))
        return
    parts.attempt(
        lambda: _alter(service, resource, named, fresh=fresh, validate_only=validate_only),
        AlteredConfigs(0, None, *resource),
        lambda error: AlteredConfigs(code_of(error), str(error), *resource),
    )


def _wrong(resource: tuple[int, str], names: Sequence[str]) -> str | None:
    """Return what is wrong with a change of these settings, whatever they are."""
    if resource == (_GROUP, ""):
        return "settings of all groups are set at the start of the server: name a group"
    if resource == (_TOPIC, ""):
        return "a topic has a name"
    if len(set(names)) < len(names):
        return "a setting is named twice"
    return None


def _change(
    service: Service, resource: tuple[int, str], entry: IncrementalAlter
) -> tuple[str, str | None]:
    """Return what a setting becomes; None for its default."""
    if entry.config_operation == _DELETE:
        return entry.name, None
    if entry.config_operation == _SET:
        return entry.name, entry.value
    if entry.config_operation not in (_APPEND, _SUBTRACT) or resource[0] != _TOPIC:
        raise InvalidSetting(f"{entry.name}: operation {entry.config_operation} is not understood")
    settings = service.broker.topic(resource[1]).settings
    append = entry.config_operation == _APPEND
    return entry.name, topic_configs.listed(settings, entry.name, entry.value or "", append=append)


def _alter(
    service: Service,
    resource: tuple[int, str],
    named: Iterable[tuple[str, str | None]],
    *,
    fresh: bool,
    validate_only: bool,
) -> Durable:
    """Change settings, or only see whether that could be done; return when it is durable."""
    kind, name = resource
    if kind == _GROUP:
        alter_group = service.broker.group_configs.alter
        return alter_group(name, dict(named), fresh=fresh, validate_only=validate_only)
    if kind not in (_TOPIC, _BROKER, *_WITHOUT_ANY):
        raise InvalidName("resource", name, f"what is of type {kind} has no settings here")
    if kind != _TOPIC:
        raise InvalidSetting("only settings of topics and groups can be changed while it runs")
    check_topic(name, internal=True)
    settings = service.broker.topic(name).settings
    changes = topic_configs.changes(named, {} if fresh else settings.kept)
    if fresh:
        changes = _all_defaults() | changes
    settings.altered(**changes)
    return AT_ONCE if validate_only else service.broker.alter_topic(name, **changes).durable


def _all_defaults() -> dict[str, object]:
    defaults = TopicSettings()
    return {
        name: getattr(defaults, name)
        for name in TopicSettings.__struct_fields__
        # How many partitions there are, and where they are kept, is not a config of Kafka's.
        if name not in ("partitions", "durability")
    }


def list_all(asked: Asked, request: ListConfigResourcesRequest, reply: Reply) -> None:
    """List what has settings, perhaps of some kinds only; before version 1, metrics of clients."""
    service = asked.service
    if asked.header.api_version == 0:
        reply(ListConfigResourcesResponse())
        return
    kinds = set(request.resource_types) or {_TOPIC, _BROKER, _GROUP}
    if kinds - {_TOPIC, _BROKER, _GROUP} - _WITHOUT_ANY:
        reply(ListConfigResourcesResponse(error_code=Code.UNSUPPORTED_VERSION))
        return
    found: list[ConfigResource] = []
    if _TOPIC in kinds:
        found += [ConfigResource(each.name, _TOPIC) for each in service.broker.topics()]
    if _BROKER in kinds:
        found.append(ConfigResource(str(service.settings.node_id), _BROKER))
    if _GROUP in kinds:
        names = service.broker.group_configs.names()
        found += [ConfigResource(each, _GROUP) for each in names]
    reply(ListConfigResourcesResponse(config_resources=found))
