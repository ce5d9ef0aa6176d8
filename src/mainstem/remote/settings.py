"""The settings of topics under the names that Kafka has for them, and ``mainstem.*`` for the rest.

| ours | theirs |
|---|---|
| compact | cleanup.policy |
| retention_ms, retention_bytes | retention.ms, retention.bytes (-1: none) |
| segment_bytes, segment_ms | segment.bytes, segment.ms |
| max_batch_bytes | max.message.bytes |
| tombstone_ms | delete.retention.ms |
| the rest | mainstem.*, which only our server knows |
"""

import re
from collections.abc import Mapping

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.policies import Durability, TopicSettings

OWN_PREFIX = "mainstem."
_NEVER = 2**63 - 1
_NOT_KNOWN = re.compile(r"(unknown|no setting)[^;]*mainstem\.", re.IGNORECASE)
"""Kafka says: Unknown topic config name: mainstem.durability."""

_NAMES = {
    "compact": "cleanup.policy",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "max_batch_bytes": "max.message.bytes",
    "tombstone_ms": "delete.retention.ms",
}
_NONE = {"retention_ms": "-1", "retention_bytes": "-1", "segment_ms": str(_NEVER)}


def to_kafka(settings: TopicSettings, names: Mapping[str, object]) -> dict[str, str]:
    """Return those settings that are named (partitions are none) as Kafka wants them."""
    return {
        _NAMES.get(name, OWN_PREFIX + name): _written(name, getattr(settings, name))
        for name in names
        if name != "partitions"
    }


def from_kafka(entries: Mapping[str, str | None], partitions: int) -> TopicSettings:
    """Return a topic's settings; of a server that is not ours, as near as they come."""
    found: dict[str, object] = {"partitions": partitions}
    if not any(name.startswith(OWN_PREFIX) for name in entries):
        # Kafka acknowledges what is in memory of all copies and leaves syncing to the system.
        found["durability"] = Durability.DISK
    for name in TopicSettings.__struct_fields__:
        text = entries.get(_NAMES.get(name, OWN_PREFIX + name))
        if name != "partitions" and text is not None:
            found[name] = _read(name, text)
    # Not checked: a server that is not ours may allow what we would not.
    return msgspec.convert(found, TopicSettings, strict=False)


def about_own(error: InvalidSetting, config: Mapping[str, str], address: str) -> InvalidSetting:
    """Return a refusal, in our words if it means that the server does not know ``mainstem.*``."""
    own = [name.removeprefix(OWN_PREFIX) for name in config if name.startswith(OWN_PREFIX)]
    if own and _NOT_KNOWN.search(str(error)):
        return InvalidSetting(
            f"{address} does not know {', '.join(own)}, as it is not a mainstem server, or an "
            f"older one; leave that out, or ask a server that does ({error})"
        )
    return error


def _written(name: str, value: object) -> str:
    if name == "compact":
        return "compact" if value else "delete"
    if value is None:
        return _NONE.get(name, "none")
    return str(value)


def _read(name: str, text: str) -> object:
    if name == "compact":
        return "compact" in text
    if text == "none" or (name in _NONE and text in ("-1", str(_NEVER))):
        return None
    return text
