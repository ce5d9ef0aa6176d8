"""Topic settings under Kafka's names: what we honour is taken, what we do not is refused.

| theirs | ours |
|---|---|
| cleanup.policy (delete, compact, or both) | compact, expire |
| retention.ms, retention.bytes (-1: none) | retention_ms, retention_bytes |
| segment.bytes, segment.ms | segment_bytes, segment_ms |
| max.message.bytes | max_batch_bytes |
| delete.retention.ms | tombstone_ms |
| min.cleanable.dirty.ratio | compact_share |
| min.compaction.lag.ms, max.compaction.lag.ms | compact_after_ms, compact_within_ms |
| message.timestamp.type (CreateTime, LogAppendTime) | timestamps |
| message.timestamp.after.max.ms, message.timestamp.before.max.ms | max_ahead_ms, max_behind_ms |
| compression.type (uncompressed for none) | compression |
| mainstem.* | the setting of that name |
| file.delete.delay.ms and the like | kept: how Kafka manages its files promises nothing to users |
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import KEPT, TopicSettings

PREFIX = "mainstem."
_NEVER = 2**63 - 1


class Type(IntEnum):
    """How the value of a setting is read."""

    BOOLEAN = 1
    TEXT = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Source(IntEnum):
    """Where the value of a setting comes from."""

    TOPIC = 1
    CLUSTER = 3
    BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Shown(NamedTuple):
    """A setting as it is shown."""

    name: str
    value: str
    source: Source
    type: Type


class _Named(NamedTuple):
    """A setting of theirs."""

    type: Type
    ours: tuple[str, ...]
    parse: Callable[[str], Mapping[str, object]]
    show: Callable[[TopicSettings], str]


def _number(ours: str, kind: Type = Type.INT) -> _Named:
    def show(settings: TopicSettings) -> str:
        return str(getattr(settings, ours))

    return _Named(kind, (ours,), lambda text: {ours: int(text)}, show)


def _share(ours: str) -> _Named:
    def show(settings: TopicSettings) -> str:
        return str(getattr(settings, ours))

    return _Named(Type.DOUBLE, (ours,), lambda text: {ours: float(text)}, show)


def _limit(ours: str, none: int = -1) -> _Named:
    def parse(text: str) -> Mapping[str, object]:
        if int(text) > _NEVER:
            raise InvalidSetting(f"{text:.100} is over {_NEVER}")
        return {ours: None if int(text) in (-1, _NEVER) else int(text)}

    def show(settings: TopicSettings) -> str:
        value = getattr(settings, ours)
        return str(none) if value is None else str(value)

    return _Named(Type.LONG, (ours,), parse, show)


def _choice(ours: str, choices: Mapping[str, str]) -> _Named:
    def parse(text: str) -> Mapping[str, object]:
        if text not in choices:
            raise InvalidSetting(f"{text!r:.100} is not a choice: {', '.join(choices)}")
        return {ours: choices[text]}

    theirs = {value: text for text, value in choices.items()}
    return _Named(Type.TEXT, (ours,), parse, lambda settings: theirs[getattr(settings, ours)])


def _policy(text: str) -> Mapping[str, object]:
    words = {word.strip() for word in text.split(",")} - {""}
    if words - {"compact", "delete"}:
        raise InvalidSetting(f"{text!r:.100} is not delete, compact, both or neither")
    return {"compact": "compact" in words, "expire": "delete" in words}


def _shown_policy(settings: TopicSettings) -> str:
    words = ["delete"] * settings.expires + ["compact"] * settings.compact
    return ",".join(words)


_COMPRESSIONS = ("producer", "gzip", "snappy", "lz4", "zstd")
_NAMES = {
    "cleanup.policy": _Named(Type.LIST, ("compact", "expire"), _policy, _shown_policy),
    "retention.ms": _limit("retention_ms"),
    "retention.bytes": _limit("retention_bytes"),
    "segment.bytes": _number("segment_bytes"),
    "segment.ms": _limit("segment_ms"),
    "max.message.bytes": _number("max_batch_bytes"),
    "delete.retention.ms": _number("tombstone_ms", Type.LONG),
    "min.cleanable.dirty.ratio": _share("compact_share"),
    "min.compaction.lag.ms": _number("compact_after_ms", Type.LONG),
    "max.compaction.lag.ms": _limit("compact_within_ms", _NEVER),
    "message.timestamp.type": _choice(
        "timestamps", {"CreateTime": "created", "LogAppendTime": "appended"}
    ),
    "message.timestamp.after.max.ms": _limit("max_ahead_ms", _NEVER),
    "message.timestamp.before.max.ms": _limit("max_behind_ms", _NEVER),
    "compression.type": _choice(
        "compression",
        dict(zip(_COMPRESSIONS, _COMPRESSIONS, strict=True)) | {"uncompressed": "none"},
    ),
}
_TAKEN = {ours for each in _NAMES.values() for ours in each.ours} | {"partitions", "kept"}
OWN = tuple(name for name in TopicSettings.__struct_fields__ if name not in _TAKEN)
_FIXED = {
    # Since 4.1 Kafka says that this is set for the whole cluster.
    "min.insync.replicas": ("1", Source.CLUSTER, Type.INT),
    "unclean.leader.election.enable": ("false", Source.DEFAULT, Type.BOOLEAN),
    "preallocate": ("false", Source.DEFAULT, Type.BOOLEAN),
}
"""What cannot be chosen here; naming the only value there is is not an error."""

_KEPT_INTS = ("index.interval.bytes", "segment.index.bytes")


def changes(
    configs: Iterable[tuple[str, str | None]], kept: Mapping[str, str]
) -> dict[str, object]:
    """Translate Kafka's settings into ours; None means our default. Raises InvalidSetting.

    ``kept`` is what the topic keeps for Kafka's tools so far.
    """
    found: dict[str, object] = {}
    defaults = TopicSettings()
    for name, value in configs:
        if name in _FIXED and value in (None, _FIXED[name][0]):
            continue
        if name in KEPT:
            kept = _with_kept(kept, name, value)
            found["kept"] = kept
            continue
        named = _named(name)
        if value is None:
            found |= {ours: getattr(defaults, ours) for ours in named.ours}
            continue
        try:
            found |= named.parse(value)
        except InvalidSetting as error:
            raise InvalidSetting(f"{name}: {error}") from None
        except ValueError:
            raise InvalidSetting(f"{name}={value!r:.100}: not a number") from None
    return found


def _with_kept(kept: Mapping[str, str], name: str, value: str | None) -> dict[str, str]:
    others = {other: kept[other] for other in kept if other != name}
    if value is None:
        return others
    if not value.isascii() or not value.isdigit() or len(value) > 20 or int(value) > _NEVER:
        raise InvalidSetting(f"{name}={value!r:.100}: not a number that Kafka would take")
    return others | {name: value}


def listed(settings: TopicSettings, name: str, value: str, *, append: bool) -> str:
    """Return a setting that is a list with words added or taken away; raises InvalidSetting."""
    if name != "cleanup.policy":
        raise InvalidSetting(f"{name} is not a list: nothing can be appended or subtracted")
    was = _shown_policy(settings).split(",")
    words = [word.strip() for word in value.split(",")]
    if append:
        return ",".join(dict.fromkeys(was + words))
    return ",".join(word for word in was if word not in words)


def _named(name: str) -> _Named:
    if name in _NAMES:
        return _NAMES[name]
    ours = name.removeprefix(PREFIX)
    if ours in OWN and name.startswith(PREFIX):
        return _own(ours)
    known = ", ".join([*_NAMES, *KEPT, *(PREFIX + each for each in OWN)])
    raise InvalidSetting(f"no setting {name!r:.100} here; there are {known}")


def _own(ours: str) -> _Named:
    def show(settings: TopicSettings) -> str:
        value = getattr(settings, ours)
        return "none" if value is None else str(value)

    return _Named(Type.TEXT, (ours,), lambda text: {ours: None if text == "none" else text}, show)


def shown(settings: TopicSettings) -> list[Shown]:
    """Return every setting of a topic."""
    names = _NAMES | {PREFIX + ours: _own(ours) for ours in OWN}
    defaults = TopicSettings()
    rows = [
        Shown(
            name,
            each.show(settings),
            _source(each.show(settings) == each.show(defaults)),
            each.type,
        )
        for name, each in names.items()
    ]
    for name, default in KEPT.items():
        value = settings.kept.get(name, default)
        kind = Type.INT if name in _KEPT_INTS else Type.LONG
        rows.append(Shown(name, value, _source(name not in settings.kept), kind))
    return rows + [Shown(name, *fixed) for name, fixed in _FIXED.items()]


def _source(is_default: bool) -> Source:
    return Source.DEFAULT if is_default else Source.TOPIC
