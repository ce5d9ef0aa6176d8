"""The table of topic configs: Kafka's name, our setting, type, how to parse and display it.

Defaults and bounds are those of ``TopicSettings``. Settings that Kafka does not have are called
``mainstem.<setting>``.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import KEPT, TopicSettings

OWN_PREFIX = "mainstem."
NEVER = 2**63 - 1
"""The value by which Kafka means "no limit" in configs where -1 is not allowed."""


class ConfigType(IntEnum):
    """The type of a config's value."""

    BOOLEAN = 1
    TEXT = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a config's value comes from: it was set explicitly, or is a default."""

    TOPIC = 1
    CLUSTER = 3
    BROKER = 4
    DEFAULT = 5
    GROUP = 8


class TopicConfig(msgspec.Struct, frozen=True):
    """One config: its type, the settings that it sets, and how it is parsed and displayed."""

    type: ConfigType
    settings: tuple[str, ...]
    parse: Callable[[str], Mapping[str, object]]
    """Parses text into settings; raises InvalidSetting, or ValueError for text that is not a
    number.
    """
    show: Callable[[TopicSettings], str]


def _number(setting: str, kind: ConfigType = ConfigType.INT) -> TopicConfig:
    def show(settings: TopicSettings) -> str:
        return str(getattr(settings, setting))

    return TopicConfig(kind, (setting,), lambda text: {setting: int(text)}, show)


def _ratio(setting: str) -> TopicConfig:
    def show(settings: TopicSettings) -> str:
        return str(getattr(settings, setting))

    return TopicConfig(ConfigType.DOUBLE, (setting,), lambda text: {setting: float(text)}, show)


def _limit(setting: str, none: int) -> TopicConfig:
    """Return a config of a setting that may be None, shown as ``none``; -1 and NEVER mean None."""

    def parse(text: str) -> Mapping[str, object]:
        if int(text) > NEVER:
            raise InvalidSetting(f"{text:.100} is over {NEVER}")
        return {setting: None if int(text) in (-1, NEVER) else int(text)}

    def show(settings: TopicSettings) -> str:
        value = getattr(settings, setting)
        return str(none) if value is None else str(value)

    return TopicConfig(ConfigType.LONG, (setting,), parse, show)


def _choice(setting: str, choices: Mapping[str, str]) -> TopicConfig:
    def parse(text: str) -> Mapping[str, object]:
        if text not in choices:
            raise InvalidSetting(f"{text!r:.100} is not a choice: {', '.join(choices)}")
        return {setting: choices[text]}

    shown = {value: text for text, value in choices.items()}
    return TopicConfig(
        ConfigType.TEXT, (setting,), parse, lambda settings: shown[getattr(settings, setting)]
    )


def _parse_policy(text: str) -> Mapping[str, object]:
    words = {word.strip() for word in text.split(",")} - {""}
    if words - {"compact", "delete"}:
        raise InvalidSetting(f"{text!r:.100} is not delete, compact, both or neither")
    return {"compact": "compact" in words, "expire": "delete" in words}


def _show_policy(settings: TopicSettings) -> str:
    return ",".join(["delete"] * settings.expires + ["compact"] * settings.compact)


def _own(setting: str) -> TopicConfig:
    def show(settings: TopicSettings) -> str:
        value = getattr(settings, setting)
        return "none" if value is None else str(value)

    return TopicConfig(
        ConfigType.TEXT, (setting,), lambda text: {setting: None if text == "none" else text}, show
    )


_COMPRESSIONS = ("producer", "gzip", "snappy", "lz4", "zstd")
_KAFKA = {
    "cleanup.policy": TopicConfig(
        ConfigType.LIST, ("compact", "expire"), _parse_policy, _show_policy
    ),
    "retention.ms": _limit("retention_ms", -1),
    "retention.bytes": _limit("retention_bytes", -1),
    "segment.bytes": _number("segment_bytes"),
    "segment.ms": _limit("segment_ms", NEVER),
    "max.message.bytes": _number("max_batch_bytes"),
    "delete.retention.ms": _number("tombstone_ms", ConfigType.LONG),
    "min.cleanable.dirty.ratio": _ratio("compact_share"),
    "min.compaction.lag.ms": _number("compact_after_ms", ConfigType.LONG),
    "max.compaction.lag.ms": _limit("compact_within_ms", NEVER),
    "message.timestamp.type": _choice(
        "timestamps", {"CreateTime": "created", "LogAppendTime": "appended"}
    ),
    "message.timestamp.after.max.ms": _limit("max_ahead_ms", NEVER),
    "message.timestamp.before.max.ms": _limit("max_behind_ms", NEVER),
    "compression.type": _choice(
        "compression",
        dict(zip(_COMPRESSIONS, _COMPRESSIONS, strict=True)) | {"uncompressed": "none"},
    ),
}
_WITHOUT = {"partitions", "kept"} | {name for each in _KAFKA.values() for name in each.settings}
TOPIC_CONFIGS: dict[str, TopicConfig] = _KAFKA | {
    OWN_PREFIX + setting: _own(setting)
    for setting in TopicSettings.__struct_fields__
    if setting not in _WITHOUT
}
"""All topic configs that have an effect, by name."""

NAME_OF: dict[str, str] = {
    setting: name for name, each in TOPIC_CONFIGS.items() for setting in each.settings
}
"""The name of the config that sets a setting; ``partitions`` and ``kept`` have no config."""

KEPT_TYPES: dict[str, ConfigType] = {
    name: ConfigType.INT
    if name in ("index.interval.bytes", "segment.index.bytes")
    else ConfigType.LONG
    for name in KEPT
}
"""Types of the configs that are stored for Kafka's tools and have no effect."""

FIXED: dict[str, tuple[str, ConfigSource, ConfigType]] = {
    # Since 4.1 Kafka reports that this is set for the whole cluster.
    "min.insync.replicas": ("1", ConfigSource.CLUSTER, ConfigType.INT),
    "unclean.leader.election.enable": ("false", ConfigSource.DEFAULT, ConfigType.BOOLEAN),
    "preallocate": ("false", ConfigSource.DEFAULT, ConfigType.BOOLEAN),
}
"""Configs with only one possible value; it is no error to set that value."""
