"""Topic configs in requests: parses changes, and describes the current values.

Supported configs are accepted, others are refused. Configs that tell Kafka how to manage its files
are stored and shown, but have no effect (``KEPT``).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import KEPT, TopicSettings
from mainstem.kafka_protocol.topic_configs import (
    FIXED,
    KEPT_TYPES,
    NEVER,
    OWN_PREFIX,
    TOPIC_CONFIGS,
    ConfigSource,
    ConfigType,
    TopicConfig,
)


class ShownConfig(NamedTuple):
    """One config with its value, as DescribeConfigs returns it."""

    name: str
    value: str
    source: ConfigSource
    type: ConfigType


def changes(
    configs: Iterable[tuple[str, str | None]], kept: Mapping[str, str]
) -> dict[str, object]:
    """Convert Kafka configs of a topic to topic settings; raises InvalidSetting.

    A value of None resets a config. ``kept``: the stored configs of the topic that have no effect.
    """
    found: dict[str, object] = {}
    defaults = TopicSettings()
    for name, value in configs:
        if name in FIXED and value in (None, FIXED[name][0]):
            continue
        if name in KEPT:
            kept = _with_kept(kept, name, value)
            found["kept"] = kept
            continue
        config = _config(name)
        if value is None:
            found |= {setting: getattr(defaults, setting) for setting in config.settings}
            continue
        try:
            found |= config.parse(value)
        except InvalidSetting as error:
            raise InvalidSetting(f"{name}: {error}") from None
        except ValueError:
            raise InvalidSetting(f"{name}={value!r:.100}: not a number") from None
    return found


def _with_kept(kept: Mapping[str, str], name: str, value: str | None) -> dict[str, str]:
    others = {other: kept[other] for other in kept if other != name}
    if value is None:
        return others
    if not value.isascii() or not value.isdigit() or len(value) > 20 or int(value) > NEVER:
        raise InvalidSetting(f"{name}={value!r:.100}: not a number that Kafka would take")
    return others | {name: value}


def listed(settings: TopicSettings, name: str, value: str, *, append: bool) -> str:
    """Return the new value of a list config after words were appended or subtracted.

    Raises InvalidSetting for configs that are not lists.
    """
    if name != "cleanup.policy":
        raise InvalidSetting(f"{name} is not a list: nothing can be appended or subtracted")
    was = TOPIC_CONFIGS["cleanup.policy"].show(settings).split(",")
    words = [word.strip() for word in value.split(",")]
    if append:
        return ",".join(dict.fromkeys(was + words))
    return ",".join(word for word in was if word not in words)


def _config(name: str) -> TopicConfig:
    found = TOPIC_CONFIGS.get(name)
    if found is None:
        # Kafka's names come first, then ours, as in the reference.
        own = [each for each in TOPIC_CONFIGS if each.startswith(OWN_PREFIX)]
        known = ", ".join([*(each for each in TOPIC_CONFIGS if each not in own), *KEPT, *own])
        raise InvalidSetting(f"no setting {name!r:.100} here; there are {known}")
    return found


def shown(settings: TopicSettings) -> list[ShownConfig]:
    """Return every config of a topic with its value."""
    defaults = TopicSettings()
    rows = []
    for name, config in TOPIC_CONFIGS.items():
        value = config.show(settings)
        rows.append(ShownConfig(name, value, _source(value == config.show(defaults)), config.type))
    for name, kind in KEPT_TYPES.items():
        value = settings.kept.get(name, KEPT[name])
        rows.append(ShownConfig(name, value, _source(name not in settings.kept), kind))
    return rows + [ShownConfig(name, *fixed) for name, fixed in FIXED.items()]


def _source(is_default: bool) -> ConfigSource:
    return ConfigSource.DEFAULT if is_default else ConfigSource.TOPIC
