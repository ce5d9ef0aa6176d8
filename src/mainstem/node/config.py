"""The settings of a node, and how they are read.

A setting is a field of ``Config`` or of one of its sections, with name, default, bounds and
description; the ``MAINSTEM_…`` variables, the keys of ``mainstem.toml`` and the reference page are
derived from it. A field without a description is no setting. A keyword or command-line option takes
precedence over the environment, and that over the file.
"""

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.broker.groups.defaults import GroupDefaults
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.producers.producers import ProducerLimits
from mainstem.broker.topics.catalog import TopicLimits
from mainstem.broker.transactions.completion import TransactionLimits
from mainstem.connectors.limits import ConnectorLimits
from mainstem.core.errors import InvalidSetting
from mainstem.core.setting_types import KIB, MIB, Bytes, IntervalMs, NonNegativeInt, PositiveInt
from mainstem.core.topic_settings import Durability
from mainstem.heads import HEADS
from mainstem.heads.head import HeadSettings
from mainstem.sql.limits import SqlLimits

FILE_NAME = "mainstem.toml"
PREFIX = "MAINSTEM_"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a node, with their defaults."""

    auto_create: Annotated[
        bool,
        "Whether a missing topic is created when it is published to, or when a "
        "Kafka client asks for its metadata.",
    ] = True
    partitions: Annotated[
        int, Meta(ge=1, le=1_000_000), "Default number of partitions of a new topic."
    ] = 1
    durability: Annotated[
        Durability, "Default durability of a new topic: memory, disk or fsync."
    ] = Durability.FSYNC
    fetch_bytes: Annotated[Bytes, "Bytes that a subscription reads at a time per partition."] = MIB
    batch_bytes: Annotated[Bytes, "Bytes of events that publish_many puts into one batch."] = (
        768 * KIB
    )
    pending_bytes: Annotated[
        Bytes, "Bytes that publish_many appends before it waits for the disk."
    ] = 16 * MIB
    commit_ms: Annotated[
        NonNegativeInt, "Milliseconds between automatic commits of a group's cursors."
    ] = 1000
    hand_over_ms: Annotated[
        PositiveInt, "Milliseconds that a group member may take to give up a partition."
    ] = 300_000
    upkeep_ms: Annotated[
        IntervalMs, "Milliseconds between checks of retention, compaction, checkpoints."
    ] = 1000
    drain_ms: Annotated[
        NonNegativeInt, "Milliseconds in which a stopping server answers running requests."
    ] = 10_000
    max_memory_bytes: Annotated[
        Bytes, "Bytes that topics with durability memory may hold together."
    ] = 1024 * MIB
    pipelines: Annotated[
        str, "Directory where pipelines on this machine keep their state; the admin API shows it."
    ] = "mainstem-pipelines"
    connectors: ConnectorLimits = ConnectorLimits()
    sql: SqlLimits = SqlLimits()
    heads: dict[str, HeadSettings] = msgspec.field(
        default_factory=lambda: {head.name: head.settings for head in HEADS}
    )
    """The settings of each protocol head, by the head's name."""
    topics: TopicLimits = TopicLimits()
    groups: GroupLimits = GroupLimits()
    group_defaults: GroupDefaults = GroupDefaults()
    producers: ProducerLimits = ProducerLimits()
    transactions: TransactionLimits = TransactionLimits()

    def listening(self, **addresses: str) -> "Config":
        """Return a copy with these listen addresses of heads, such as ``kafka="127.0.0.1:0"``."""
        changed = {
            name: msgspec.structs.replace(self.heads[name], listen=listen)
            for name, listen in addresses.items()
        }
        return msgspec.structs.replace(self, heads=self.heads | changed)


class Setting(msgspec.Struct, frozen=True):
    """A setting, as the reference page shows it."""

    name: str
    variable: str
    default: str
    sentence: str


def settings() -> tuple[Setting, ...]:
    """Return all settings in the order of ``Config``; those in sections are ``section.name``."""
    return tuple(
        Setting(name, _variable(name), _shown(field.default), sentence)
        for name, field in _fields(Config)
        if (sentence := _sentence(field))
    )


def value_of(config: Config, name: str) -> object:
    """Return the value of a setting; one in a section is called ``section.name``."""
    section, _, field = name.rpartition(".")
    if section in config.heads:
        return getattr(config.heads[section], field)
    return getattr(getattr(config, section) if section else config, field)


def load_config(
    directory: Path | None, environ: Mapping[str, str], given: Mapping[str, object]
) -> Config:
    """Return the settings: each from ``given``, else from the environment, else from the file."""
    names = [each.name for each in settings()]
    file = directory / FILE_NAME if directory else None
    found = {name: (value, str(file)) for name, value in _read(file).items()}
    for name in names:
        variable = _variable(name)
        if variable in environ:
            found[name] = (environ[variable], f"the variable {variable}")
    found |= {name: (value, "the arguments") for name, value in given.items()}
    config = Config()
    for name, (value, source) in found.items():
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise InvalidSetting(f"no setting {name!r} (in {source}); {hint}")
        section, _, field = name.rpartition(".")
        checked = _checked(name, value, source)
        if section in config.heads:
            whole = msgspec.structs.replace(config.heads[section], **{field: checked})
            config = msgspec.structs.replace(config, heads=config.heads | {section: whole})
        elif section:
            whole = msgspec.structs.replace(getattr(config, section), **{field: checked})
            config = msgspec.structs.replace(config, **{section: whole})
        else:
            config = msgspec.structs.replace(config, **{field: checked})
    return config


def _fields(
    struct: type[msgspec.Struct], section: str = ""
) -> Iterator[tuple[str, msgspec.structs.FieldInfo]]:
    for field in msgspec.structs.fields(struct):
        if field.name == "heads" and not section:
            for head in HEADS:
                yield from _fields(type(head.settings), f"{head.name}.")
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _fields(field.type, f"{field.name}.")
        else:
            yield section + field.name, field


def _variable(name: str) -> str:
    return PREFIX + name.replace(".", "_").upper()


def _read(file: Path | None) -> dict[str, object]:
    if file is None or not file.exists():
        return {}
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{file} is not valid TOML: {error}; correct it, or remove it"
        ) from None
    flat: dict[str, object] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{field}": each for field, each in value.items()}
        else:
            flat[name] = value
    return flat


def _checked(name: str, value: object, source: str) -> object:
    """Return a value, maybe text, converted to the type of its field; raises InvalidSetting."""
    field = dict(_fields(Config))[name]
    try:
        checked: object = msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{name} = {value!r} in {source}: {error}") from None
    return checked


def _sentence(field: msgspec.structs.FieldInfo) -> str:
    """Return the description of a field; empty if it has none, and so is no setting."""
    notes = getattr(field.type, "__metadata__", ())
    return next((note for note in notes if isinstance(note, str)), "")


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
