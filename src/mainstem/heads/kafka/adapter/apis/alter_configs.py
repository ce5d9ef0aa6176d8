"""AlterConfigs, versions 0 to 2: replaces all configs of topics or groups."""

from mainstem.heads.kafka.adapter.configs.config_changes import attempt_change
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import configs as messages


@serves(messages.ALTER_CONFIGS, 0, 2)
def answer(asked: Asked, request: messages.AlterConfigsRequest, reply: Reply) -> None:
    """Replace all configs of topics or groups: configs not named are reset to their defaults."""
    results = Results[messages.AlteredConfigs](asked.service)
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        names = [entry.name for entry in each.configs]
        named = ((entry.name, entry.value) for entry in each.configs)
        only = request.validate_only
        attempt_change(
            results, asked.service, resource, names, named, fresh=True, validate_only=only
        )
    results.then(lambda responses: reply(messages.AlterConfigsResponse(responses=responses)))
