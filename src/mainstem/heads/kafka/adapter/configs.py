"""Topic settings under Kafka's names: what we honour is taken, what we do not is refused.

| theirs | ours |
|---|---|
| cleanup.policy (delete, compact) | compact |
| retention.ms, retention.bytes (-1: none) | retention_ms, retention_bytes |
| segment.bytes, segment.ms | segment_bytes, segment_ms |
| max.message.bytes | max_batch_bytes |
| delete.retention.ms | tombstone_ms |
| mainstem.* | the setting of that name |
"""

from collections.abc import Callable, Iterable

from mainstem.core.errors import InvalidSetting
from mainstem.core.policies import TopicSettings

PREFIX = "mainstem."
_NEVER = 2**63 - 1


def _limit(text: str) -> int | None:
    return None if int(text) in (-1, _NEVER) else int(text)


def _shown_limit(value: object) -> str:
    return "-1" if value is None else str(value)


def _policy(text: str) -> bool:
    words = {word.strip() for word in text.split(",")}
    if words == {"compact"}:
        return True
    if words == {"delete"}:
        return False
    raise InvalidSetting(f"cleanup.policy={text!r}: choose delete or compact")


_NAMES: dict[str, tuple[str, Callable[[str], object], Callable[[object], str]]] = {
    "cleanup.policy": ("compact", _policy, lambda compact: "compact" if compact else "delete"),
    "retention.ms": ("retention_ms", _limit, _shown_limit),
    "retention.bytes": ("retention_bytes", _limit, _shown_limit),
    "segment.bytes": ("segment_bytes", int, str),
    "segment.ms": ("segment_ms", _limit, _shown_limit),
    "max.message.bytes": ("max_batch_bytes", int, str),
    "delete.retention.ms": ("tombstone_ms", int, str),
}
_TAKEN = {name for name, _, _ in _NAMES.values()} | {"partitions"}
OWN = tuple(name for name in TopicSettings.__struct_fields__ if name not in _TAKEN)
_FIXED = {
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "compression.type": "producer",
    "unclean.leader.election.enable": "false",
    "preallocate": "false",
}
"""What cannot be chosen here; naming the only value there is is not an error."""


def changes(configs: Iterable[tuple[str, str | None]]) -> dict[str, object]:
    """Translate Kafka's settings into ours; None means our default. Raises InvalidSetting."""
    found: dict[str, object] = {}
    for name, value in configs:
        if name in _FIXED and value in (None, _FIXED[name]):
            continue
        ours, parse = _ours(name)
        if value is None:
            found[ours] = getattr(TopicSettings(), ours)
            continue
        try:
            found[ours] = parse(value)
        except ValueError:
            raise InvalidSetting(f"{name}={value!r:.100}: not a number") from None
    return found


def _ours(name: str) -> tuple[str, Callable[[str], object]]:
    if name in _NAMES:
        ours, parse, _ = _NAMES[name]
        return ours, parse
    if name.removeprefix(PREFIX) in OWN and name.startswith(PREFIX):
        return name.removeprefix(PREFIX), lambda text: None if text == "none" else text
    known = ", ".join([*_NAMES, *(PREFIX + each for each in OWN)])
    raise InvalidSetting(f"no setting {name!r:.100} here; there are {known}")


def shown(settings: TopicSettings) -> list[tuple[str, str, bool]]:
    """Return name, value and whether it is the default, of every setting of a topic."""
    defaults = TopicSettings()
    rows = []
    for name, (ours, _, show) in _NAMES.items():
        value = getattr(settings, ours)
        rows.append((name, show(value), value == getattr(defaults, ours)))
    for ours in OWN:
        value = getattr(settings, ours)
        text = "none" if value is None else str(value)
        rows.append((PREFIX + ours, text, value == getattr(defaults, ours)))
    rows += [(name, value, True) for name, value in _FIXED.items()]
    return rows
