"""Converts topic settings to configs of a server (mainstem or Apache Kafka) and back."""

import re
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import KEPT, Durability, TopicSettings
from mainstem.kafka_protocol.topic_configs import NAME_OF, OWN_PREFIX, TOPIC_CONFIGS

_POLICY = "cleanup.policy"
_NOT_KNOWN = re.compile(r"(unknown|no setting)[^;]*mainstem\.", re.IGNORECASE)
"""Matches the error of Apache Kafka for our configs: "Unknown topic config name: mainstem.…"."""
_RETENTION = ("retention_ms", "retention_bytes")


def to_kafka(settings: TopicSettings, names: Mapping[str, object]) -> dict[str, str]:
    """Return the named settings as topic configs, without the number of partitions."""
    configs = [NAME_OF[name] for name in names if name not in ("partitions", "kept")]
    if settings.compact and any(name in names for name in _RETENTION):
        # Kafka applies retention to a compacted topic only if cleanup.policy has delete, too.
        configs.append(_POLICY)
    written = {name: TOPIC_CONFIGS[name].show(settings) for name in configs}
    return written | settings.kept if "kept" in names else written


def from_kafka(entries: Mapping[str, str | None], partitions: int) -> TopicSettings:
    """Return a topic's settings from its configs; for Apache Kafka, the nearest equivalent."""
    found: dict[str, object] = {"partitions": partitions}
    if not any(name.startswith(OWN_PREFIX) for name in entries):
        # Kafka acknowledges from the replicas' memory and leaves fsync to the system.
        found["durability"] = Durability.DISK
    kept = {name: entries[name] for name in KEPT if entries.get(name) not in (None, KEPT[name])}
    if kept:
        found["kept"] = kept
    for name, config in TOPIC_CONFIGS.items():
        text = entries.get(name)
        if text is not None:
            # A later Kafka may have values unknown here; they are shown as our default.
            with suppress(InvalidSetting):
                found |= config.parse(text)
    if all(found.get(name) is None for name in _RETENTION):
        # Without retention it has no meaning, and keeps its default.
        found.pop("expire", None)
    # Not checked: another Kafka may allow values that we refuse.
    return msgspec.convert(found, TopicSettings, strict=False)


def explain_unknown_config(
    error: InvalidSetting, config: Mapping[str, str], address: str
) -> InvalidSetting:
    """Return the error for a refused config; it tells if ``mainstem.*`` configs are unknown."""
    own = [name.removeprefix(OWN_PREFIX) for name in config if name.startswith(OWN_PREFIX)]
    if own and _NOT_KNOWN.search(str(error)):
        return InvalidSetting(
            f"{address} does not know {', '.join(own)}, as it is not a mainstem server, or an "
            f"older one; leave that out, or ask a server that does ({error})"
        )
    return error
