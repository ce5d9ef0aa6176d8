"""The connector classes of Debezium that are supported here, and the properties of each."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote, urlencode

import msgspec

from mainstem.heads.connect.values import (
    Config,
    Refused,
    Settings,
    Take,
    choice,
    flag,
    interval,
    names,
    number,
    text,
)

CLASS, NAME, PASSWORD = "connector.class", "name", "database.password"
PREFIX = "topic.prefix"
_HOST, _USER, _DATABASE = "database.hostname", "database.user", "database.dbname"
_DATABASES, _TABLES = "database.include.list", "table.include.list"
_SSL = "database.ssl.mode"
JSON = "org.apache.kafka.connect.json.JsonConverter"
CLOUDEVENTS = "io.debezium.converters.CloudEventsConverter"


class Plugin(msgspec.Struct, frozen=True):
    """A connector class."""

    name: str
    scheme: str
    """The scheme of the URL of its databases, such as ``postgres``."""
    required: tuple[str, ...]
    honoured: Mapping[str, Take]
    """Properties that have an effect, and the function that converts each by itself."""
    fixed: Mapping[str, frozenset[str]]
    """Properties that are accepted only with these values, which describe what is done here anyway.
    """
    together: tuple[str, ...]
    """Properties that are converted together, by ``finish`` or ``configs.py``."""
    finish: Callable[[Config, Settings], None]
    """Sets the URL, and other settings that depend on several properties; raises Refused."""
    needless: Mapping[str, str]
    """Prefixes of properties that have no meaning here, and why."""

    @property
    def short_name(self) -> str:
        """The class name without its package, which Kafka Connect accepts, too."""
        return self.name.rpartition(".")[2]

    @property
    def known(self) -> tuple[str, ...]:
        """The names of all properties that can be used."""
        return (*self.together, *self.honoured, *self.fixed)


_FIXED: Mapping[str, frozenset[str]] = {
    "binary.handling.mode": frozenset({"bytes"}),
    "schema.name.adjustment.mode": frozenset({"none"}),
    "field.name.adjustment.mode": frozenset({"none"}),
    "topic.creation.default.replication.factor": frozenset({"-1", "1"}),
    "value.converter": frozenset({JSON, CLOUDEVENTS}),
    "key.converter": frozenset({JSON}),
    "value.converter.serializer.type": frozenset({"json"}),
    "value.converter.data.serializer.type": frozenset({"json"}),
}
_HONOURED: Mapping[str, Take] = {
    _TABLES: names("tables", 2),
    "table.exclude.list": names("exclude", 2),
    "column.exclude.list": names("exclude_columns", 3),
    "column.mask.with.8.chars": names("mask_columns", 3),
    PREFIX: text("prefix"),
    "decimal.handling.mode": choice(
        "decimals", {each: each for each in ("precise", "string", "double")}
    ),
    "tombstones.on.delete": flag("tombstones"),
    "skipped.operations": choice("truncates", {"t": False, "none": True}),
    "provide.transaction.metadata": flag("transactions"),
    "heartbeat.interval.ms": interval,
    "topic.creation.default.partitions": number("partitions", 1),
    "tasks.max": number("tasks", 1),
}
_TOGETHER = (
    *(CLASS, NAME, PASSWORD, "transforms", _HOST, "database.port", _USER),
    *(f"{kind}.converter.schemas.enable" for kind in ("key", "value")),
    "value.converter.json.schemas.enable",
)


def _server(scheme: str, config: Config, port: str, database: str) -> str:
    """Return the URL of the database server in a configuration, without options."""
    port = config.get("database.port", port)
    if not re.fullmatch(r"\d{1,5}", port):
        raise Refused("it must be the number of a port")
    host, user = config.get(_HOST, ""), quote(config.get(_USER, ""), "")
    at = f"[{host}]" if ":" in host else quote(host, "")
    return f"{scheme}://{user}@{at}:{port}/{quote(database, '')}"


# PostgreSQL


def _finish_postgres(config: Config, settings: Settings) -> None:
    options = {
        each: config[f"database.{each}"]
        for each in ("sslmode", "sslrootcert")
        if config.get(f"database.{each}")
    }
    query = f"?{urlencode(options)}" if options else ""
    settings["url"] = _server("postgres", config, "5432", config.get(_DATABASE, "")) + query


POSTGRES = Plugin(
    name="io.debezium.connector.postgresql.PostgresConnector",
    scheme="postgres",
    required=(_HOST, _USER, _DATABASE, PREFIX),
    honoured={
        **_HONOURED,
        "schema.include.list": names("tables", 1, ".*"),
        "schema.exclude.list": names("exclude", 1, ".*"),
        "slot.name": text("slot"),
        "publication.name": text("publication"),
        "snapshot.mode": choice(
            "snapshot", {"initial": "initial", "no_data": "no_data", "never": "no_data"}
        ),
        # Ignored: here, connecting is retried for as long as the database is unavailable.
        "slot.max.retries": lambda _, __: None,
        "slot.retry.delay.ms": lambda _, __: None,
    },
    fixed={
        **_FIXED,
        "plugin.name": frozenset({"pgoutput"}),
        "publication.autocreate.mode": frozenset({"filtered"}),
        "slot.drop.on.stop": frozenset({"false"}),
        "time.precision.mode": frozenset({"adaptive"}),
        "interval.handling.mode": frozenset({"numeric"}),
        "hstore.handling.mode": frozenset({"json"}),
    },
    together=(*_TOGETHER, _DATABASE, "database.sslmode", "database.sslrootcert"),
    finish=_finish_postgres,
    needless={},
)


# MariaDB and MySQL


def _finish_mysql(scheme: str, modes: Mapping[str, str]) -> Callable[[Config, Settings], None]:
    def finish(config: Config, settings: Settings) -> None:
        mode = config.get(_SSL, "")
        if mode and mode not in modes:
            raise Refused(f"only {', '.join(modes)} can be used here", _SSL)
        url = _server(scheme, config, "3306", _first_database(config))
        settings["url"] = url + modes.get(mode, "")
        if not settings.get("tables"):
            names("tables", 1, ".*")(config[_DATABASES], settings)

    return finish


def _first_database(config: Config) -> str:
    """Return the first database that is captured, to which the connection is opened."""
    databases = _databases(config.get(_DATABASES, ""))
    of_tables = [each.partition(".")[0] for each in _databases(config.get(_TABLES, ""))]
    if not databases and not of_tables:
        raise Refused(f"it or {_TABLES} must say what is captured", _DATABASES)
    if databases and (others := [each for each in of_tables if each not in databases]):
        raise Refused(f"database {others[0]} is not in {_DATABASES}", _TABLES)
    return (databases or of_tables)[0]


def _databases(value: str) -> list[str]:
    parts = (each.strip().removeprefix("^").removesuffix("$") for each in value.split(","))
    return [each.replace("\\.", ".") for each in parts if each]


def _mysql(name: str, scheme: str, locking: str, ssl: Mapping[str, str]) -> Plugin:
    return Plugin(
        name=name,
        scheme=scheme,
        required=(_HOST, _USER, PREFIX),
        honoured={
            **_HONOURED,
            "database.exclude.list": names("exclude", 1, ".*"),
            "database.server.id": number("server_id", 1),
            "snapshot.mode": choice("snapshot", {"initial": "initial", "no_data": "no_data"}),
        },
        fixed={
            **_FIXED,
            "time.precision.mode": frozenset({"adaptive_time_microseconds"}),
            "bigint.unsigned.handling.mode": frozenset({"long"}),
            "include.schema.changes": frozenset({"true"}),
            "snapshot.locking.mode": frozenset({locking}),
            "connect.keep.alive": frozenset({"true"}),
        },
        together=(*_TOGETHER, _DATABASES, _SSL),
        finish=_finish_mysql(scheme, ssl),
        needless={
            "schema.history.internal": "the binlog describes the columns of its rows, so no "
            "history of schemas is kept: leave it out"
        },
    )


MARIADB = _mysql(
    "io.debezium.connector.mariadb.MariaDbConnector",
    "mariadb",
    "none",
    {"disable": "", "trust": "?ssl=true"},
)
MYSQL = _mysql(
    "io.debezium.connector.mysql.MySqlConnector",
    "mysql",
    "minimal",
    {"disabled": "", "required": "?ssl=true"},
)
PLUGINS = (POSTGRES, MARIADB, MYSQL)


def plugin_of(name: str) -> Plugin | None:
    """Return the plugin of a connector class, None if it is not supported here."""
    return next((each for each in PLUGINS if name in (each.name, each.short_name)), None)
