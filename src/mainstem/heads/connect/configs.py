"""Debezium's configuration of a connector, as the settings of ours, and back.

Every name of Debezium's is honoured, has one value that is what we do anyway, or is refused: a
connector never runs otherwise than its configuration says.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote, urlencode, urlsplit

import msgspec

Config = Mapping[str, str]
Settings = dict[str, object]

CLASS, NAME, PASSWORD = "connector.class", "name", "database.password"
PREFIX = "topic.prefix"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
REQUIRED = ("database.hostname", "database.user", "database.dbname", PREFIX)
_CONVERTERS = "org.apache.kafka.connect"
_JSON = f"{_CONVERTERS}.json.JsonConverter"
_CLOUDEVENTS = "io.debezium.converters.CloudEventsConverter"
_UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
_OUTBOX = "io.debezium.transforms.outbox.EventRouter"
_ENV = re.compile(r"\$\{env:([A-Za-z0-9_]+)\}")
_DIRECTORY = re.compile(r"\$\{dir:(?:[^:}]*:)?([^:}/]+)\}")
_TABLE = re.compile(r"[A-Za-z0-9_$ -]+(?:\.[A-Za-z0-9_$ -]+)*(?:\.\*)?")


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a value of a configuration."""

    name: str
    why: str


class Refused(ValueError):
    """A value cannot be used."""


FIXED: Mapping[str, frozenset[str]] = {
    "plugin.name": frozenset({"pgoutput"}),
    "publication.autocreate.mode": frozenset({"filtered"}),
    "slot.drop.on.stop": frozenset({"false"}),
    "time.precision.mode": frozenset({"adaptive"}),
    "interval.handling.mode": frozenset({"numeric"}),
    "binary.handling.mode": frozenset({"bytes"}),
    "hstore.handling.mode": frozenset({"json"}),
    "schema.name.adjustment.mode": frozenset({"none"}),
    "field.name.adjustment.mode": frozenset({"none"}),
    "topic.creation.default.replication.factor": frozenset({"-1", "1"}),
    "value.converter": frozenset({_JSON, _CLOUDEVENTS}),
    "key.converter": frozenset({_JSON}),
    "value.converter.serializer.type": frozenset({"json"}),
    "value.converter.data.serializer.type": frozenset({"json"}),
}
"""Names that may have these values only."""


def _text(field: str) -> Callable[[str, Settings], None]:
    def take(value: str, settings: Settings) -> None:
        settings[field] = value

    return take


def _number(field: str, least: int) -> Callable[[str, Settings], None]:
    def take(value: str, settings: Settings) -> None:
        if not re.fullmatch(r"\d{1,12}", value) or int(value) < least:
            raise Refused(f"it must be a number from {least} on")
        settings[field] = int(value)

    return take


def _flag(field: str) -> Callable[[str, Settings], None]:
    def take(value: str, settings: Settings) -> None:
        settings[field] = boolean(value)

    return take


def boolean(value: str) -> bool:
    """Return a value that is true or false."""
    if value.lower() not in ("true", "false"):
        raise Refused("it must be true or false")
    return value.lower() == "true"


def _choice(field: str, choices: Mapping[str, object]) -> Callable[[str, Settings], None]:
    def take(value: str, settings: Settings) -> None:
        if value not in choices:
            raise Refused(f"only {', '.join(choices)} can be used here")
        settings[field] = choices[value]

    return take


def _names(field: str, parts: int, more: str = "") -> Callable[[str, Settings], None]:
    """Return how to take a list of names that Debezium takes for regular expressions."""

    def take(value: str, settings: Settings) -> None:
        found: list[str] = []
        for each in filter(None, (part.strip() for part in value.split(","))):
            plain = each.removeprefix("^").removesuffix("$").replace("\\.", ".")
            # ``schema\..*`` and ``schema.*`` mean all of its tables.
            plain = plain[:-3] + ".*" if plain.endswith("..*") else plain
            if not _TABLE.fullmatch(plain) or plain.count(".") != parts - 1:
                raise Refused(
                    f"{each!r:.100} is a regular expression that cannot be used here: write "
                    f"{'.'.join(('schema', 'table', 'column')[:parts])}, where the last part may "
                    "be .*"
                )
            found.append(plain + more)
        known = settings.get(field, ())
        assert isinstance(known, tuple)
        settings[field] = (*known, *found)

    return take


def _interval(value: str, settings: Settings) -> None:
    _number("heartbeat_ms", 0)(value, settings)
    if settings["heartbeat_ms"] == 0:
        del settings["heartbeat_ms"]


HONOURED: Mapping[str, Callable[[str, Settings], None]] = {
    "table.include.list": _names("tables", 2),
    "table.exclude.list": _names("exclude", 2),
    "schema.include.list": _names("tables", 1, ".*"),
    "schema.exclude.list": _names("exclude", 1, ".*"),
    "column.exclude.list": _names("exclude_columns", 3),
    "column.mask.with.8.chars": _names("mask_columns", 3),
    "slot.name": _text("slot"),
    "publication.name": _text("publication"),
    PREFIX: _text("prefix"),
    "snapshot.mode": _choice(
        "snapshot", {"initial": "initial", "no_data": "no_data", "never": "no_data"}
    ),
    "decimal.handling.mode": _choice(
        "decimals", {each: each for each in ("precise", "string", "double")}
    ),
    "tombstones.on.delete": _flag("tombstones"),
    "skipped.operations": _choice("truncates", {"t": False, "none": True}),
    "provide.transaction.metadata": _flag("transactions"),
    "heartbeat.interval.ms": _interval,
    "topic.creation.default.partitions": _number("partitions", 1),
    "slot.max.retries": lambda _, __: None,
    "slot.retry.delay.ms": lambda _, __: None,
    "tasks.max": _number("tasks", 1),
}
"""How the other names are honoured; it is tried again for as long as a database is away."""
_TOGETHER = (
    *(CLASS, NAME, PASSWORD, "transforms"),
    *(f"database.{each}" for each in ("hostname", "port", "user", "dbname", "sslmode")),
    "database.sslrootcert",
    *(f"{kind}.converter.schemas.enable" for kind in ("key", "value")),
    "value.converter.json.schemas.enable",
)
"""The names that mean something only together."""
KNOWN = (*_TOGETHER, *HONOURED, *FIXED)


def settings_of(name: str, config: Config) -> tuple[Settings, list[Fault]]:
    """Return the settings of a connector, and what is wrong with its configuration."""
    reading = _Reading(name, config)
    reading.read()
    return reading.settings, reading.faults


class _Reading:
    """One configuration that is being read."""

    def __init__(self, name: str, config: Config) -> None:
        self._name = name
        self._config = config
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
        self._take("database.port", lambda: settings.update(url=_url(config)))

    def _check_required(self) -> None:
        config = self._config
        if config.get(NAME, self._name) != self._name:
            self._fault(NAME, f"the connector is called {self._name}")
        if config.get(CLASS) not in (POSTGRES, "PostgresConnector"):
            self._fault(CLASS, f"only {POSTGRES} is served here")
        for each in REQUIRED:
            if not config.get(each):
                self._fault(each, "it must have a value")
        for kind in ("include", "exclude"):
            if f"schema.{kind}.list" in config and f"table.{kind}.list" in config:
                self._fault(f"schema.{kind}.list", f"use it or table.{kind}.list, not both")

    def _take_one(self, name: str, value: str) -> None:
        if name in HONOURED:
            self._take(name, lambda: HONOURED[name](value, self.settings))
        elif name in FIXED and value not in FIXED[name]:
            self._fault(name, f"only {', '.join(sorted(FIXED[name]))} can be used here")
        elif name not in KNOWN:
            self._fault(name, "this is not supported; docs/guides/cdc.md lists what is")

    def _take(self, name: str, use: Callable[[], object]) -> None:
        try:
            use()
        except Refused as error:
            self._fault(name, str(error))

    def _fault(self, name: str, why: str) -> None:
        self.faults.append(Fault(name, why))


def _url(config: Config) -> str:
    port = config.get("database.port", "5432")
    if not re.fullmatch(r"\d{1,5}", port):
        raise Refused("it must be the number of a port")
    options = {
        each: config[f"database.{each}"]
        for each in ("sslmode", "sslrootcert")
        if config.get(f"database.{each}")
    }
    host, user = config.get("database.hostname", ""), quote(config.get("database.user", ""), "")
    at = f"[{host}]" if ":" in host else quote(host, "")
    query = f"?{urlencode(options)}" if options else ""
    return f"postgres://{user}@{at}:{port}/{quote(config.get('database.dbname', ''), '')}{query}"


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
    if config.get("value.converter") == _CLOUDEVENTS:
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
    """Return the main part of a configuration, for a connector that was added otherwise."""
    name, url = str(settings["name"]), urlsplit(str(settings["url"]))
    found = {
        NAME: name,
        CLASS: POSTGRES if url.scheme.startswith("postgres") else url.scheme,
        "database.hostname": url.hostname or "",
        "database.port": str(url.port or ""),
        "database.user": url.username or "",
        "database.dbname": url.path.strip("/"),
        PREFIX: str(settings.get("prefix") or name),
        "table.include.list": _listed(settings.get("tables")),
    }
    return {each: value for each, value in found.items() if value}


def _listed(names: object) -> str:
    return ",".join(map(str, names)) if isinstance(names, list | tuple) else ""
