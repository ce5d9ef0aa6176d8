"""The settings of one connector, stored as a definition; they contain no password."""

import re
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.core.errors import InvalidSetting

ROUTED = "${routedByValue}"
"""What stands for the column ``aggregatetype`` in ``outbox_topic``."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Format(StrEnum):
    """How events are encoded."""

    JSON = "json"
    """Debezium's envelope as JSON, as Kafka Connect writes it with ``schemas.enable=false``."""
    JSON_SCHEMA = "json-schema"
    """The envelope with its schema in every event, as with ``schemas.enable=true``."""
    FLAT = "flat"
    """Only the row, as Debezium's ExtractNewRecordState leaves it; a deletion has no value."""
    CLOUDEVENTS = "cloudevents"
    """CloudEvents in JSON, with the attributes of Debezium's CloudEvents converter."""


class Decimals(StrEnum):
    """How decimals are encoded, in the words of Debezium's ``decimal.handling.mode``."""

    PRECISE = "precise"
    STRING = "string"
    DOUBLE = "double"


class SnapshotMode(StrEnum):
    """Which rows are read before following begins."""

    INITIAL = "initial"
    """All rows."""
    NONE = "no_data"
    """Nothing: only later changes are published."""


class ConnectorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a connector."""

    name: str
    url: str
    """Where the database is; without a password."""
    prefix: str = ""
    """The first part of its topics' names, if that is not its name."""
    tables: tuple[str, ...] = ()
    """The tables to capture, as ``schema.name``; ``*`` and ``?`` match."""
    exclude: tuple[str, ...] = ()
    """Tables to leave out of those, in the same way."""
    exclude_columns: tuple[str, ...] = ()
    """Columns to leave out, as ``schema.table.column``."""
    mask_columns: tuple[str, ...] = ()
    """Columns whose values are replaced by asterisks, in the same way."""
    password_env: str = ""
    """The environment variable of the server that holds the password."""
    password_file: str = ""
    """The file that holds the password."""
    format: Format = Format.JSON
    decimals: Decimals = Decimals.PRECISE
    snapshot: SnapshotMode = SnapshotMode.INITIAL
    tombstones: bool = True
    """Whether a deletion is followed by an event without value, for compaction."""
    truncates: bool = True
    """Whether a truncated table is an event of its own (``op`` is ``t``), in each partition."""
    transactions: bool = False
    """Whether events say which transaction they belong to, and ``NAME.transaction`` is written."""
    outbox: tuple[str, ...] = ()
    """Tables whose new rows are published as the events that they describe."""
    outbox_topic: str = f"outbox.event.{ROUTED}"
    """The topic of such an event; ``${routedByValue}`` is the row's ``aggregatetype``."""
    outbox_headers: tuple[str, ...] = ()
    """Columns that are headers of such an event, as ``column`` or ``column:header``."""
    partitions: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """The partitions of the topics that the connector creates."""
    max_event_bytes: Annotated[int, Meta(ge=1024, le=1024 * 1024 * 1024)] = 16 * 1024 * 1024
    """The largest record batch of the topics that the connector creates."""
    max_slot_bytes: Annotated[int, Meta(ge=0)] = 0
    """How much log the database may keep for the connector before that is given up; 0: any."""
    alarm_slot_bytes: Annotated[int, Meta(ge=0)] = 1024 * 1024 * 1024
    """How much log the database keeps for the connector when there is an alarm; 0: none."""
    own_process: bool = False
    """Whether only ``mainstem connector run`` runs it, and never a thread of the server."""
    heartbeat_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 10_000
    """How often the position is stored and confirmed while there is nothing to publish."""
    slot: str = ""
    """PostgreSQL: the replication slot; by default ``mainstem_`` and the name."""
    publication: str = ""
    """PostgreSQL: the publication; by default ``mainstem_`` and the name."""

    server_id: Annotated[int, Meta(ge=0, le=4_294_967_295)] = 0
    """MariaDB: the number of the connector among the replicas of a server; 0: from its name."""

    @property
    def topic_prefix(self) -> str:
        """The first part of the names of its topics."""
        return self.prefix or self.name

    def check(self) -> None:
        """Raise InvalidSetting for values that are invalid for every kind of database."""
        if not NAME.fullmatch(self.name):
            raise InvalidSetting(
                f"connector name {self.name!r:.100}: up to 41 letters, digits, _ and -, of which "
                "the first is a letter or digit; it begins the names of topics"
            )
        if self.prefix and not PREFIX.fullmatch(self.prefix):
            raise InvalidSetting(
                f"prefix {self.prefix!r:.100}: up to 100 letters, digits, ., _ and -, of which the "
                "first is a letter or digit"
            )
        if self.password_env and self.password_file:
            raise InvalidSetting("give password_env or password_file, not both")
        for each in (*self.tables, *self.exclude, *self.outbox):
            if each.count(".") != 1:
                raise InvalidSetting(f"table {each!r:.200}: write schema.table, such as public.t")
        for each in (*self.exclude_columns, *self.mask_columns):
            if each.count(".") != 2:
                raise InvalidSetting(
                    f"column {each!r:.200}: write schema.table.column, such as public.t.email"
                )


def with_schema(settings: ConnectorSettings, schema: str) -> ConnectorSettings:
    """Return settings that put ``schema`` before table names without one; "" changes nothing."""
    if not schema:
        return settings

    def named(names: tuple[str, ...], dots: int) -> tuple[str, ...]:
        return tuple(f"{schema}.{each}" if each.count(".") == dots else each for each in names)

    return msgspec.structs.replace(
        settings,
        tables=named(settings.tables, 0),
        exclude=named(settings.exclude, 0),
        exclude_columns=named(settings.exclude_columns, 1),
        mask_columns=named(settings.mask_columns, 1),
    )
