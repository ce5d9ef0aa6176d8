"""Converts Debezium's configuration of a connector to settings of a connector here, and back.

Each of Debezium's properties has its effect here, or is accepted only with the value for what is
done here anyway, or is refused. So a connector always does what its configuration says.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlsplit

import msgspec

from mainstem.heads.connect.plugins import (
    CLASS,
    CLOUDEVENTS,
    NAME,
    PASSWORD,
    PLUGINS,
    POSTGRES,
    PREFIX,
    Plugin,
    plugin_of,
)
from mainstem.heads.connect.values import Config, Refused, Settings, boolean

_UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
_OUTBOX = "io.debezium.transforms.outbox.EventRouter"
_ENV = re.compile(r"\$\{env:([A-Za-z0-9_]+)\}")
_DIRECTORY = re.compile(r"\$\{dir:(?:[^:}]*:)?([^:}/]+)\}")


class Fault(msgspec.Struct, frozen=True):
    """A property of a configuration that is wrong, and why."""

    name: str
    why: str


def settings_of(name: str, config: Config) -> tuple[Settings, list[Fault]]:
    """Convert a configuration to settings; return also its faults."""
    reading = _Reading(name, config)
    reading.read()
    return reading.settings, reading.faults


class _Reading:
    """The conversion of one configuration."""

    def __init__(self, name: str, config: Config) -> None:
        self._name = name
        self._config = config
        self._plugin = plugin_of(config.get(CLASS, "")) or POSTGRES
        self.settings: Settings = {"name": name, "truncates": False}
        self.faults: list[Fault] = []

    def read(self) -> None:
        config, settings = self._config, self.settings
        self._check_required()
        transforms = [each.strip() for each in config.get("transforms", "").split(",")]
        transforms = [each for each in transforms if each]
        for name, value in config.items():
            if not name.startswith(tuple(f"transforms.{each}." for each in transforms)):
                self._take_one(name, value)
        self._take(PASSWORD, lambda: _password(config.get(PASSWORD, ""), settings))
        self._take("value.converter.schemas.enable", lambda: _format(config, settings))
        for each in transforms:
            self._take(f"transforms.{each}.type", partial(_transform, each, config, settings))
        settings.pop("tasks", None)
        if settings.get("prefix") == self._name:
            del settings["prefix"]
        self._take("database.port", lambda: self._plugin.finish(config, settings))

    def _check_required(self) -> None:
        config = self._config
        if config.get(NAME, self._name) != self._name:
            self._fault(NAME, f"the connector is called {self._name}")
        if plugin_of(config.get(CLASS, "")) is None:
            served = ", ".join(each.name for each in PLUGINS)
            self._fault(CLASS, f"only these are served here: {served}")
        for each in self._plugin.required:
            if not config.get(each):
                self._fault(each, "it must have a value")
        for kind in ("include", "exclude"):
            if f"schema.{kind}.list" in config and f"table.{kind}.list" in config:
                self._fault(f"schema.{kind}.list", f"use it or table.{kind}.list, not both")

    def _take_one(self, name: str, value: str) -> None:
        plugin = self._plugin
        if name in plugin.honoured:
            self._take(name, lambda: plugin.honoured[name](value, self.settings))
        elif name in plugin.fixed and value not in plugin.fixed[name]:
            self._fault(name, f"only {', '.join(sorted(plugin.fixed[name]))} can be used here")
        elif name not in plugin.known:
            self._fault(name, _why_not(plugin, name))

    def _take(self, name: str, use: Callable[[], object]) -> None:
        try:
            use()
        except Refused as error:
            self._fault(error.name or name, str(error))

    def _fault(self, name: str, why: str) -> None:
        self.faults.append(Fault(name, why))


def _why_not(plugin: Plugin, name: str) -> str:
    for begin, why in plugin.needless.items():
        if name.startswith(begin):
            return why
    return "this is not supported; docs/guides/cdc.md lists what is"


def _password(value: str, settings: Settings) -> None:
    if not value:
        return
    if found := _ENV.fullmatch(value):
        settings["password_env"] = found[1]
    elif found := _DIRECTORY.fullmatch(value):
        settings["password_file"] = found[1]
    else:
        raise Refused(
            "passwords are stored by reference only: write ${env:MAINSTEM_SECRET_NAME} for a "
            "variable of the server, or ${dir:/run/secrets:FILE} for a file in the directory of "
            "its setting connectors.secrets_dir"
        )


def _format(config: Config, settings: Settings) -> None:
    if config.get("value.converter") == CLOUDEVENTS:
        if boolean(config.get("value.converter.json.schemas.enable", "true")):
            raise Refused("CloudEvents need value.converter.json.schemas.enable=false")
        settings["format"] = "cloudevents"
        return
    # Kafka Connect's converter writes schemas unless it is told not to.
    default = "true" if "value.converter" in config else "false"
    key, value = (
        boolean(config.get(f"{kind}.converter.schemas.enable", default))
        for kind in ("key", "value")
    )
    if key != value:
        raise Refused("it must be the same for key.converter and value.converter")
    settings["format"] = "json-schema" if value else "json"


def _transform(name: str, config: Config, settings: Settings) -> None:
    start = f"transforms.{name}."
    given = {each[len(start) :]: value for each, value in config.items() if each.startswith(start)}
    kind = given.pop("type", "")
    if kind == _UNWRAP:
        if given.pop("delete.tombstone.handling.mode", "tombstone") != "tombstone":
            raise Refused("delete.tombstone.handling.mode must be tombstone")
        if boolean(given.pop("drop.tombstones", "false")):
            raise Refused("drop.tombstones must be false")
        settings["format"] = "flat"
    elif kind == _OUTBOX:
        _outbox(given, settings)
    else:
        raise Refused(f"only {_UNWRAP} and {_OUTBOX} can be used here")
    if given:
        raise Refused(f"{start}{min(given)} is not supported")


def _outbox(given: dict[str, str], settings: Settings) -> None:
    tables = settings.get("tables", ())
    assert isinstance(tables, tuple)
    if not tables or any(each.endswith("*") for each in tables):
        raise Refused("table.include.list must name the outbox tables, and no others")
    settings["outbox"] = tables
    if topic := given.pop("route.topic.replacement", ""):
        settings["outbox_topic"] = topic
    headers = []
    for each in filter(None, given.pop("table.fields.additional.placement", "").split(",")):
        column, _, rest = each.strip().partition(":")
        place, _, alias = rest.partition(":")
        if place != "header":
            raise Refused(f"table.fields.additional.placement: {each} cannot be placed there")
        headers.append(f"{column}:{alias}" if alias else column)
    settings["outbox_headers"] = tuple(headers)


def config_of(settings: Mapping[str, object]) -> dict[str, str]:
    """Convert settings to a configuration, for a connector that was not added with one.

    Only the main properties are in it.
    """
    name, url = str(settings["name"]), urlsplit(str(settings["url"]))
    scheme = url.scheme.replace("postgresql", "postgres")
    plugin = next((each for each in PLUGINS if each.scheme == scheme), None)
    tables, database = _listed(settings.get("tables")), url.path.strip("/")
    found = {
        NAME: name,
        CLASS: scheme if plugin is None else plugin.name,
        "database.hostname": url.hostname or "",
        "database.port": str(url.port or ""),
        "database.user": url.username or "",
        PREFIX: str(settings.get("prefix") or name),
        "table.include.list": tables,
    }
    if plugin is None or "database.dbname" in plugin.known:
        found["database.dbname"] = database
    elif not tables:
        found["database.include.list"] = database
    return {each: value for each, value in found.items() if value}


def _listed(names: object) -> str:
    return ",".join(map(str, names)) if isinstance(names, list | tuple) else ""
