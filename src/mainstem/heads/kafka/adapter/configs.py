"""Topic settings under Kafka's names: what we honour is taken, what we do not is refused.

| theirs | ours |
|---|---|
| cleanup.policy (delete, compact, or both) | compact, expire |
| retention.ms, retention.bytes (-1: none) | retention_ms, retention_bytes |
| segment.bytes, segment.ms | segment_bytes, segment_ms |
| max.message.bytes | max_batch_bytes |
| delete.retention.ms | tombstone_ms |
| message.timestamp.type (CreateTime, LogAppendTime) | timestamps |
| compression.type (uncompressed for none) | compression |
| mainstem.* | the setting of that name |
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from mainstem.core.errors import InvalidSetting
from mainstem.core.policies import TopicSettings

PREFIX = "mainstem."
_NEVER = 2**63 - 1


class Type(IntEnum):
    """How the value of a setting is read."""

    TEXT = 2
    INT = 3
    LONG = 5
    LIST = 7


class Shown(NamedTuple):
    """A setting as it is shown."""

    name: str
    value: str
    is_default: bool
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


def _limit(ours: str) -> _Named:
    def parse(text: str) -> Mapping[str, object]:
        return {ours: None if int(text) in (-1, _NEVER) else int(text)}

    def show(settings: TopicSettings) -> str:
        value = getattr(settings, ours)
        return "-1" if value is None else str(value)

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
    "message.timestamp.type": _choice(
        "timestamps", {"CreateTime": "created", "LogAppendTime": "appended"}
    ),
    "compression.type": _choice(
        "compression",
        dict(zip(_COMPRESSIONS, _COMPRESSIONS, strict=True)) | {"uncompressed": "none"},
    ),
}
_TAKEN = {ours for each in _NAMES.values() for ours in each.ours} | {"partitions"}
OWN = tuple(name for name in TopicSettings.__struct_fields__ if name not in _TAKEN)
_FIXED = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "preallocate": "false",
}
"""What cannot be chosen here; naming the only value there is is not an error."""


def changes(configs: Iterable[tuple[str, str | None]]) -> dict[str, object]:
    """Translate Kafka's settings into ours; None means our default. Raises InvalidSetting."""
    found: dict[str, object] = {}
    defaults = TopicSettings()
    for name, value in configs:
        if name in _FIXED and value in (None, _FIXED[name]):
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
    known = ", ".join([*_NAMES, *(PREFIX + each for each in OWN)])
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
        Shown(name, each.show(settings), each.show(settings) == each.show(defaults), each.type)
        for name, each in names.items()
    ]
    return rows + [Shown(name, value, True, Type.TEXT) for name, value in _FIXED.items()]
