"""Settings of single groups: replayed from ``__mainstem_group_configs``.

A group can have settings before it has members; they apply to all members that join under its name.
``KNOWN`` lists every setting: numbers come from ``GroupDefaults``, the rest is declared here.
Values are stored as strings, in normalized form.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from mainstem.broker.groups.defaults import GroupDefaults
from mainstem.broker.groups.share.offset_reset import read_start
from mainstem.broker.journal import GROUP_CONFIGS, Journal
from mainstem.broker.queues.records import MAX_LENGTH, MAX_TTL_MS
from mainstem.broker.state import State
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.core.names import check_group
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Durable

DEFAULTS = GroupDefaults()
MAX_GROUPS = 100_000
"""Maximum number of groups with settings that are not defaults."""

_MAX_DIGITS = 20

Read = Callable[[str], str]


class GroupSetting(msgspec.Struct, frozen=True):
    """A setting of groups: its meaning, its default, and how a value is checked."""

    about: str
    default: str
    read: Read
    """Returns the normalized value; raises ValueError, with a reason, if it is not allowed."""
    kind: type[bool | int | str] = int


def whole(least: int, most: int) -> Read:
    """Return a parser of whole numbers within bounds."""

    def read(text: str) -> str:
        text = text.strip()
        # int() would also accept underscores and non-ASCII digits.
        is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
        if not is_number or not least <= int(text) <= most:
            raise ValueError(f"it must be a whole number, {least} to {most}")
        return str(int(text))

    return read


def one_of(*words: str) -> Read:
    """Return a parser that accepts one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"choose {' or '.join(words)}")
        return text

    return read


def or_never(read: Read) -> Read:
    """Return a parser that accepts what ``read`` does, and 0, which means no limit."""
    return lambda text: "0" if text.strip() == "0" else read(text)


def switch(text: str) -> str:
    """Parse ``true`` or ``false``."""
    return one_of("true", "false")(text.strip().lower())


CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"


def _numbers() -> dict[str, GroupSetting]:
    """Return the numeric settings, as declared in ``GroupDefaults``."""
    found = {}
    for field in msgspec.structs.fields(GroupDefaults):
        bounds, about = field.type.__metadata__
        read = whole(bounds.ge, bounds.le)
        name = field.name.replace("_", ".")
        found[name] = GroupSetting(about, str(field.default), read)
    return found


_NUMBERS = _numbers()
KNOWN: dict[str, GroupSetting] = _NUMBERS | {
    # Unlike Kafka, 0 is allowed: queues created in Python can retry without limit, too.
    "share.delivery.count.limit": msgspec.structs.replace(
        _NUMBERS["share.delivery.count.limit"],
        about="Number of deliveries after which an event becomes a dead letter; 0: no limit.",
        read=or_never(_NUMBERS["share.delivery.count.limit"].read),
    ),
    "share.auto.offset.reset": GroupSetting(
        "Where a share group starts in a topic that it has not read before: earliest, latest, or "
        "by_duration:PT1H (any duration).",
        "latest",
        read_start,
        str,
    ),
    "share.isolation.level": GroupSetting(
        "Whether a share group gets events of uncommitted transactions, or only committed events.",
        "read_uncommitted",
        one_of("read_uncommitted", "read_committed"),
        str,
    ),
    "mainstem.share.acquire.mode": GroupSetting(
        "batch_optimized: an answer has whole record batches, so it may have more events than "
        "requested. record_limit: never more than requested, for clients of every version.",
        "batch_optimized",
        one_of("batch_optimized", "record_limit"),
        str,
    ),
    "mainstem.share.ttl.ms": GroupSetting(
        "Time after which events that were not delivered become dead letters; 0: no limit.",
        "0",
        whole(0, MAX_TTL_MS),
    ),
    "mainstem.share.max.length": GroupSetting(
        "Number of waiting events beyond which the oldest become dead letters; 0: no limit.",
        "0",
        whole(0, MAX_LENGTH),
    ),
    "mainstem.share.max.bytes": GroupSetting(
        "Bytes of waiting values beyond which the oldest become dead letters; 0: no limit.",
        "0",
        whole(0, MAX_LENGTH),
    ),
    "share.renew.acknowledge.enable": GroupSetting(
        "Whether members may renew the lock of an event.",
        "true",
        switch,
        bool,
    ),
}
"""Every setting that a group can have, by name."""

LONGER_THAN: list[tuple[str, str]] = [
    (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
]
"""Pairs of settings of which the first must be greater than the second."""


class GroupConfigKey(msgspec.Struct, frozen=True, array_like=True, tag="group-config"):
    """The record's key: the group's name."""

    group: str


class GroupConfig(msgspec.Struct, frozen=True, tag_field="kind", tag="group-config/1"):
    """The settings of a group that differ from the defaults."""

    settings: dict[str, str]


class GroupConfigChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: GroupConfigKey
    value: GroupConfig | None


class GroupConfigFold:
    """The settings of groups that differ from the defaults, rebuilt by replaying the topic."""

    def __init__(self, defaults: GroupDefaults = DEFAULTS) -> None:
        self._groups: dict[str, Mapping[str, str]] = {}
        self.defaults = {name: known.default for name, known in KNOWN.items()}
        """The default of every setting."""
        for name, number in msgspec.structs.asdict(defaults).items():
            self.defaults[name.replace("_", ".")] = str(number)
        _check_pairs(self.defaults, "groups")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupConfigFold):
            return NotImplemented
        return self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._groups))

    def of(self, group: str) -> Mapping[str, str]:
        """Return the settings of a group that differ from the defaults."""
        return self._groups.get(group, {})

    def all_of(self, group: str) -> Mapping[str, str]:
        """Return all settings of a group, with defaults."""
        return {**self.defaults, **self.of(group)}

    def text(self, group: str, name: str) -> str:
        """Return the value of a group's setting, or its default, as text."""
        return self.of(group).get(name, self.defaults[name])

    def alter(
        self, group: str, changes: Mapping[str, str | None], *, fresh: bool = False
    ) -> list[GroupConfigChange]:
        """Return the changes that set a group's settings; a value None resets that setting.

        ``fresh``: reset all settings that are not named.
        """
        check_group(group)
        was = self.of(group)
        settings = {} if fresh else dict(was)
        for name, text in changes.items():
            if text is None:
                # Like Kafka, this does not refuse unknown names.
                settings.pop(name, None)
                continue
            try:
                settings[name] = _known(name).read(text)
            except ValueError as error:
                raise InvalidSetting(f"{name}={text!r:.100}: {error}") from None
        _check_pairs(self.defaults | settings, f"group {group!r}")
        if settings == was:
            return []
        if not was and len(self._groups) >= MAX_GROUPS:
            raise InvalidSetting(f"{MAX_GROUPS} groups have settings already; delete some first")
        value = GroupConfig(settings) if settings else None
        return [GroupConfigChange(GroupConfigKey(group), value)]

    def apply(self, change: GroupConfigChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        if change.value is None:
            self._groups.pop(change.key.group, None)
        else:
            self._groups[change.key.group] = change.value.settings


class GroupConfigs:
    """Public interface of the settings of groups; synchronous and thread-safe."""

    def __init__(self, state: State, defaults: GroupDefaults = DEFAULTS) -> None:
        self._state = state
        self._now_ms = state.clocks.now_ms
        self._defaults = defaults
        self.fold = GroupConfigFold(defaults)
        self._journal = Journal[GroupConfigKey, GroupConfig](
            state.log, GROUP_CONFIGS, GroupConfigKey, GroupConfig
        )
        self._replay_into(self.fold)
        self.changed: Callable[[str], None] = lambda _: None
        """Called without the lock when a group's settings have changed."""

    def names(self) -> list[str]:
        """Return the names of groups with at least one setting that is not the default."""
        with self._state.lock:
            return list(self.fold)

    def text(self, group: str, name: str) -> str:
        """Return the value of a group's setting, or its default, as text; needs no lock."""
        return self.fold.text(group, name)

    def number(self, group: str, name: str) -> int:
        """Return the value of a group's setting, or its default, as a number; needs no lock."""
        return int(self.fold.text(group, name))

    def shown(self, group: str) -> list[tuple[str, str, bool]]:
        """Return every setting of a group: name, value, and whether that is the default."""
        check_group(group)
        own = self.fold.of(group)
        return [(name, self.fold.text(group, name), name not in own) for name in KNOWN]

    def alter(
        self,
        group: str,
        changes: Mapping[str, str | None],
        *,
        fresh: bool = False,
        validate_only: bool = False,
    ) -> Durable:
        """Change settings of a group, all or nothing.

        ``fresh``: settings that are not named go back to their defaults. ``validate_only``: check
        the changes, but do not make them.
        """
        now_ms = self._now_ms()
        with self._state.lock:
            decided = self.fold.alter(group, changes, fresh=fresh)
            if validate_only:
                return AT_ONCE
            durable = self._journal.append(decided, now_ms)
            for change in decided:
                self.fold.apply(change)
        if decided:
            self.changed(group)
            durable.then(self._check_kept)
        return durable

    def _check_kept(self, error: MainstemError | None) -> None:
        """If a commit failed, which stops the log, restore the settings that are durable."""
        if error is None:
            return
        changed: list[str] = []
        # If the journal cannot be read, the durable state is unknown until the next start.
        with suppress(MainstemError), self._state.lock:
            kept = GroupConfigFold(self._defaults)
            self._replay_into(kept)
            changed = [each for each in {*self.fold, *kept} if self.fold.of(each) != kept.of(each)]
            self.fold = kept
        for group in changed:
            self.changed(group)

    def _replay_into(self, fold: GroupConfigFold) -> None:
        self._journal.replay(lambda key, value: fold.apply(GroupConfigChange(key, value)))


def _check_pairs(settings: Mapping[str, str], whose: str) -> None:
    for greater, smaller in LONGER_THAN:
        most, least = int(settings[greater]), int(settings[smaller])
        if most <= least:
            raise InvalidSetting(
                f"{greater}={most} must be greater than {smaller}={least} of {whose}"
            )


def _known(name: str) -> GroupSetting:
    known = KNOWN.get(name)
    if known is None:
        raise InvalidSetting(
            f"groups have no setting {name!r:.100} here; there are {', '.join(KNOWN)}"
        )
    return known
