"""Settings of single groups: a fold over the topic ``__mainstem_group_configs``.

A group has settings whether or not it has members, or ever had any: they hold for whoever joins
under its name. ``KNOWN`` is every setting there is, the numbers as ``GroupDefaults`` declares them;
whoever adds a kind of group adds its names. Values are kept as texts, in one of the ways in which
they can be given.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from mainstem.broker.groups.defaults import GroupDefaults
from mainstem.broker.groups.share.offset_reset import read_start
from mainstem.broker.journal import GROUP_CONFIGS, Journal
from mainstem.broker.state import State
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.core.names import check_group
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

DEFAULTS = GroupDefaults()
MAX_GROUPS = 100_000
"""How many groups may have settings of their own."""

_MAX_DIGITS = 20

Read = Callable[[str], str]


class GroupSetting(msgspec.Struct, frozen=True):
    """One setting of a group: what it means, what it is if nobody says, and what it may be."""

    about: str
    default: str
    read: Read
    """Returns a text as it is kept; raises ValueError, with a reason, if it may not be."""
    kind: type[bool | int | str] = int


def whole(least: int, most: int) -> Read:
    """Return what reads whole numbers within bounds."""

    def read(text: str) -> str:
        text = text.strip()
        # int() also takes underscores, and digits of every script.
        is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
        if not is_number or not least <= int(text) <= most:
            raise ValueError(f"it must be a whole number, {least} to {most}")
        return str(int(text))

    return read


def one_of(*words: str) -> Read:
    """Return what reads a choice of words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"choose {' or '.join(words)}")
        return text

    return read


def or_never(read: Read) -> Read:
    """Return what also reads 0, where that means that there is no limit."""
    return lambda text: "0" if text.strip() == "0" else read(text)


def switch(text: str) -> str:
    """Read whether something is so."""
    return one_of("true", "false")(text.strip().lower())


CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"


def _numbers() -> dict[str, GroupSetting]:
    """Return the settings that are numbers, as their defaults are declared."""
    found = {}
    for field in msgspec.structs.fields(GroupDefaults):
        (meta,) = field.type.__metadata__
        read = whole(meta.ge, meta.le)
        name = field.name.replace("_", ".")
        found[name] = GroupSetting(meta.description, str(field.default), read)
    return found


_NUMBERS = _numbers()
KNOWN: dict[str, GroupSetting] = _NUMBERS | {
    # Unlike Kafka: a queue that was made in Python can try for ever, and so it can be set to.
    "share.delivery.count.limit": msgspec.structs.replace(
        _NUMBERS["share.delivery.count.limit"],
        about="After how many deliveries an event becomes a dead letter; 0 tries for ever.",
        read=or_never(_NUMBERS["share.delivery.count.limit"].read),
    ),
    "share.auto.offset.reset": GroupSetting(
        "Where a share group begins in a topic that is new to it.",
        "latest",
        read_start,
        str,
    ),
    "share.isolation.level": GroupSetting(
        "Whether a share group waits for transactions to commit.",
        "read_uncommitted",
        one_of("read_uncommitted", "read_committed"),
        str,
    ),
    "mainstem.share.acquire.mode": GroupSetting(
        "Whether the number of events that members ask for is a strict limit, also where they do "
        "not say so.",
        "batch_optimized",
        one_of("batch_optimized", "record_limit"),
        str,
    ),
    "share.renew.acknowledge.enable": GroupSetting(
        "Whether members may keep an event for longer.",
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
    """What compaction keeps the latest of: the group's name."""

    group: str


class GroupConfig(msgspec.Struct, frozen=True, tag_field="kind", tag="group-config/1"):
    """The settings that were set for a group; all others are as by default."""

    settings: dict[str, str]


class GroupConfigChange(NamedTuple):
    """One record of the fold."""

    key: GroupConfigKey
    value: GroupConfig | None


class GroupConfigFold:
    """The settings of all groups that have any."""

    def __init__(self, defaults: GroupDefaults = DEFAULTS) -> None:
        self._groups: dict[str, Mapping[str, str]] = {}
        self.defaults = {name: known.default for name, known in KNOWN.items()}
        """What every setting is for a group that has none of its own."""
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
        """Return what was set for a group."""
        return self._groups.get(group, {})

    def all_of(self, group: str) -> Mapping[str, str]:
        """Return what every setting is for a group."""
        return {**self.defaults, **self.of(group)}

    def text(self, group: str, name: str) -> str:
        """Return what a setting is for a group."""
        return self.of(group).get(name, self.defaults[name])

    def alter(
        self, group: str, changes: Mapping[str, str | None], *, fresh: bool = False
    ) -> list[GroupConfigChange]:
        """Decide to set some settings, None for the default; ``fresh``: all others by default."""
        check_group(group)
        was = self.of(group)
        settings = {} if fresh else dict(was)
        for name, text in changes.items():
            if text is None:
                # As with Kafka, also what never was a setting: then it is not set afterwards.
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
        """Make one change true; the only place where this state changes, live and on replay."""
        if change.value is None:
            self._groups.pop(change.key.group, None)
        else:
            self._groups[change.key.group] = change.value.settings


class GroupConfigs:
    """The door to the settings of groups; synchronous and thread-safe."""

    def __init__(
        self, state: State, now_ms: Callable[[], int], defaults: GroupDefaults = DEFAULTS
    ) -> None:
        self._state = state
        self._now_ms = now_ms
        self._defaults = defaults
        self.fold = GroupConfigFold(defaults)
        self._journal = Journal[GroupConfigKey, GroupConfig](
            state.log,
            GROUP_CONFIGS,
            msgspec.json.Decoder(GroupConfigKey).decode,
            msgspec.json.Decoder(GroupConfig).decode,
        )
        self._replay_into(self.fold)
        self.changed: Callable[[str], None] = lambda _: None
        """Called without the lock when a group has other settings."""

    def names(self) -> list[str]:
        """Return the groups that have settings of their own."""
        with self._state.lock:
            return list(self.fold)

    def text(self, group: str, name: str) -> str:
        """Return what a setting is for a group; needs no lock."""
        return self.fold.text(group, name)

    def number(self, group: str, name: str) -> int:
        """Return what a setting is for a group, if it is a number; needs no lock."""
        return int(self.fold.text(group, name))

    def shown(self, group: str) -> list[tuple[str, str, bool]]:
        """Return name, value and whether it is the default, of every setting of a group."""
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
        """Set some settings of a group, all or nothing, or only see whether that could be done."""
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
        """Go back to what is durable, if the log has stopped."""
        if error is None:
            return
        changed: list[str] = []
        # If not even the journal can be read, nobody knows what is durable before the next start.
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
