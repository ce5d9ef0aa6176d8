"""Changes of configs, shared by AlterConfigs and IncrementalAlterConfigs."""

from collections.abc import Iterable, Sequence

from mainstem.broker.door import AT_ONCE, Durable
from mainstem.core.errors import InvalidName, InvalidSetting
from mainstem.core.names import check_topic
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.kafka.adapter.configs import topic_configs
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.configs import AlteredConfigs

TOPIC, BROKER, GROUP = 2, 4, 32
"""Kafka's numbers of the types of config resources."""
WITHOUT_CONFIGS = frozenset({8, 16})
"""Types of config resources that have no configs here: broker loggers and client metrics."""


def attempt_change(
    results: Results[AlteredConfigs],
    service: Service,
    resource: tuple[int, str],
    names: Sequence[str],
    named: Iterable[tuple[str, str | None]],
    *,
    fresh: bool,
    validate_only: bool,
) -> None:
    """Change the configs of a topic or group, and add the result or the error to ``results``.

    ``names``: all names in the request, to find repeated ones. ``fresh``: reset configs that are
    not named.
    """
    wrong = _wrong(resource, names)
    if wrong is not None:
        results.add(AlteredConfigs(Code.INVALID_REQUEST, wrong, *resource))
        return
    results.attempt(
        lambda: _alter(service, resource, named, fresh=fresh, validate_only=validate_only),
        AlteredConfigs(0, None, *resource),
        lambda error: AlteredConfigs(code_of(error), str(error), *resource),
    )


def _wrong(resource: tuple[int, str], names: Sequence[str]) -> str | None:
    """Return an error text if the resource or the names of configs are invalid, else None."""
    if resource == (GROUP, ""):
        return "defaults for all groups are set when the server starts: name a group"
    if resource == (TOPIC, ""):
        return "the topic name is empty"
    if len(set(names)) < len(names):
        return "a setting is named twice"
    return None


def _alter(
    service: Service,
    resource: tuple[int, str],
    named: Iterable[tuple[str, str | None]],
    *,
    fresh: bool,
    validate_only: bool,
) -> Durable:
    """Change configs of a topic or group; return the ``Durable`` of the change.

    ``fresh``: reset configs that are not named. ``validate_only``: change nothing.
    """
    kind, name = resource
    if kind == GROUP:
        alter_group = service.broker.group_configs.alter
        return alter_group(name, dict(named), fresh=fresh, validate_only=validate_only)
    if kind not in (TOPIC, BROKER, *WITHOUT_CONFIGS):
        raise InvalidName("resource", name, f"resources of type {kind} have no configs here")
    if kind != TOPIC:
        raise InvalidSetting("only configs of topics and groups can be changed at runtime")
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
        # The number of partitions and the durability are not configs in Kafka.
        if name not in ("partitions", "durability")
    }
