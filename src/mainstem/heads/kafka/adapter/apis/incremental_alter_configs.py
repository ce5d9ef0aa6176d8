"""IncrementalAlterConfigs, versions 0 to 1: changes only the configs that are named."""

from collections import Counter

from mainstem.core.errors import InvalidSetting
from mainstem.heads.kafka.adapter.configs import topic_configs
from mainstem.heads.kafka.adapter.configs.config_changes import TOPIC, attempt_change
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import configs as messages

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


@serves(messages.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def answer(asked: Asked, request: messages.IncrementalAlterConfigsRequest, reply: Reply) -> None:
    """Change the named configs of topics or groups, and no others."""
    results = Results[messages.AlteredConfigs](asked.service)
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        if counts[resource] > 1 or any(map(_lacks_value, each.configs)):
            message = "a resource is named twice" if counts[resource] > 1 else "a value is missing"
            results.add(messages.AlteredConfigs(Code.INVALID_REQUEST, message, *resource))
            continue
        names = [entry.name for entry in each.configs]
        named = (_change(asked.service, resource, entry) for entry in each.configs)
        only = request.validate_only
        attempt_change(
            results, asked.service, resource, names, named, fresh=False, validate_only=only
        )
    results.then(
        lambda responses: reply(messages.IncrementalAlterConfigsResponse(responses=responses))
    )


def _lacks_value(entry: messages.IncrementalAlter) -> bool:
    return entry.value is None and entry.config_operation != _DELETE


def _change(
    service: Service, resource: tuple[int, str], entry: messages.IncrementalAlter
) -> tuple[str, str | None]:
    """Return a config's name and new value; the value None resets it to its default."""
    if entry.config_operation == _DELETE:
        return entry.name, None
    if entry.config_operation == _SET:
        return entry.name, entry.value
    if entry.config_operation not in (_APPEND, _SUBTRACT) or resource[0] != TOPIC:
        raise InvalidSetting(f"{entry.name}: operation {entry.config_operation} is not understood")
    settings = service.broker.topic(resource[1]).settings
    append = entry.config_operation == _APPEND
    return entry.name, topic_configs.listed(settings, entry.name, entry.value or "", append=append)
