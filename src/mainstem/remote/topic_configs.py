"""The settings of topics under the names that Kafka has for them, and ``mainstem.*`` for the rest.

| ours | theirs |
|---|---|
| compact, expire | cleanup.policy |
| retention_ms, retention_bytes | retention.ms, retention.bytes (-1: none) |
| segment_bytes, segment_ms | segment.bytes, segment.ms |
| max_batch_bytes | max.message.bytes |
| tombstone_ms | delete.retention.ms |
| compact_share | min.cleanable.dirty.ratio |
| compact_after_ms, compact_within_ms | min.compaction.lag.ms, max.compaction.lag.ms |
| timestamps | message.timestamp.type |
| max_ahead_ms, max_behind_ms | message.timestamp.after.max.ms, message.timestamp.before.max.ms |
| compression | compression.type |
| kept | the names in it |
| the rest | mainstem.*, which only our server knows |
"""

import re
from collections.abc import Mapping

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import KEPT, Durability, TopicSettings

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
    "compact_share": "min.cleanable.dirty.ratio",
    "compact_after_ms": "min.compaction.lag.ms",
    "compact_within_ms": "max.compaction.lag.ms",
    "expire": "cleanup.policy",
    "timestamps": "message.timestamp.type",
    "max_ahead_ms": "message.timestamp.after.max.ms",
    "max_behind_ms": "message.timestamp.before.max.ms",
    "compression": "compression.type",
}
_THEIRS = {
    "timestamps": {"created": "CreateTime", "appended": "LogAppendTime"},
    "compression": {"none": "uncompressed"},
}
_OURS = {name: {b: a for a, b in words.items()} for name, words in _THEIRS.items()}
_RETENTION = {"retention_ms", "retention_bytes"}
_NONE = {
    "retention_ms": "-1",
    "retention_bytes": "-1",
    "segment_ms": str(_NEVER),
    "compact_within_ms": str(_NEVER),
    "max_ahead_ms": str(_NEVER),
    "max_behind_ms": str(_NEVER),
}


def to_kafka(settings: TopicSettings, names: Mapping[str, object]) -> dict[str, str]:
    """Return those settings that are named (partitions are none) as Kafka wants them."""
    written = {
        _NAMES.get(name, OWN_PREFIX + name): _written(name, settings)
        for name in names
        if name not in ("partitions", "kept")
    }
    if "kept" in names:
        written |= settings.kept
    if settings.compact and not _RETENTION.isdisjoint(names):
        # Unless the policy says so too, Kafka does not delete what a compacted topic holds.
        written["cleanup.policy"] = _written("compact", settings)
    return written


def from_kafka(entries: Mapping[str, str | None], partitions: int) -> TopicSettings:
    """Return a topic's settings; of a server that is not ours, as near as they come."""
    found: dict[str, object] = {"partitions": partitions}
    if not any(name.startswith(OWN_PREFIX) for name in entries):
        # Kafka acknowledges what is in memory of all copies and leaves syncing to the system.
        found["durability"] = Durability.DISK
    kept = {name: entries[name] for name in KEPT if entries.get(name) not in (None, KEPT[name])}
    if kept:
        found["kept"] = kept
    for name in TopicSettings.__struct_fields__:
        text = entries.get(_NAMES.get(name, OWN_PREFIX + name))
        if name != "partitions" and text is not None and (value := _read(name, text)) is not None:
            found[name] = value
    if not _RETENTION & found.keys():
        # Then it means nothing, and is left as it is unless told.
        found.pop("expire", None)
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


def _written(name: str, settings: TopicSettings) -> str:
    if name in ("compact", "expire"):
        return ",".join(["delete"] * settings.expires + ["compact"] * settings.compact)
    value = getattr(settings, name)
    if value is None:
        return _NONE.get(name, "none")
    return _THEIRS.get(name, {}).get(value, str(value))


def _read(name: str, text: str) -> object:
    if name == "compact":
        return "compact" in text
    if name == "expire":
        return "delete" in text
    if text == "none" or (name in _NONE and text in ("-1", str(_NEVER))):
        return None
    return _OURS.get(name, {}).get(text, text)
