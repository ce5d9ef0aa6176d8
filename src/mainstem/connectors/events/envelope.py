"""Encodes changes as events in Debezium's envelope: keys, values, tombstones, topic names.

The layout is Debezium's: ``before``, ``after``, ``source``, ``transaction``, ``op`` and three times
of processing; see "Data change events" in its documentation. A table's schemas are encoded only
once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.events.cloudevents import cloud_event
from mainstem.connectors.events.transactions import TransactionOrder
from mainstem.connectors.port import Change, Column, Op, Row, SourceBlock, Table
from mainstem.connectors.settings import ConnectorSettings, Format
from mainstem.core.event import Event

_encode = msgspec.json.Encoder().encode
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
_MAX_TOPIC = 249


class Origin(NamedTuple):
    """What all changes of a transaction, or of a snapshot, have in common."""

    committed_us: int
    snapshot: str
    """``false``, ``true``, or ``incremental``."""
    order: TransactionOrder | None = None
    """Numbers the events of the transaction, if that is wanted."""


def topic_of(prefix: str, table: Table) -> str:
    """Return the topic of a table; characters not allowed in topic names become ``_``."""
    return _NOT_IN_TOPICS.sub("_", f"{prefix}.{table.id}")[:_MAX_TOPIC]


def check_topics(prefix: str, tables: Iterable[Table]) -> None:
    """Raise SourceRefused if the events of two tables would go to the same topic."""
    seen: dict[str, str] = {}
    for table in tables:
        topic = topic_of(prefix, table)
        other = seen.setdefault(topic, table.id)
        if other != table.id:
            raise SourceRefused(
                f"tables {other} and {table.id} would share topic {topic}: leave one out"
            )


class Common(NamedTuple):
    """The fields of Debezium's ``source`` block that are the same in all events of a connector."""

    version: str
    connector: str
    """The kind of database, as Debezium names its connector."""
    name: str
    database: str
    source: SourceBlock
    has_schemas: bool = True
    """Whether a database has schemas; if not, the schema of a table is its database."""
    epoch: int = 0
    """``Progress.epoch``."""


class TableEncoder:
    """Encodes the changes of a table as events, for one version of its schema."""

    def __init__(self, settings: ConnectorSettings, table: Table, common: Common) -> None:
        self.table = table
        self.topic = topic_of(settings.topic_prefix, table)
        self._format = settings.format
        self._tombstones = settings.tombstones
        self._common = common
        self._key_head = self._value_head = b""
        self._filled: Row = {}
        """What columns hold that the database has not sent, as the schema may demand a value."""
        if settings.format is Format.JSON_SCHEMA:
            self._filled = {each.name: _filled(each) for each in table.columns}
            self._key_head = _head(_key_schema(self.topic, table))
            self._value_head = _head(_value_schema(self.topic, table, common))

    def key(self, row: Row) -> bytes | None:
        """Return the event key of a row; None if the table has no key."""
        columns = self.table.key
        if not columns:
            return None
        return self._with(self._key_head, _encode({each: row[each] for each in columns}))

    def events(self, change: Change, origin: Origin, now_ns: int) -> Iterable[Event]:
        """Return the events of a change, in order: usually one; a deletion also has a tombstone."""
        row = change.after
        if row is None or change.moved:
            return self._rare_events(change, origin, now_ns)
        value = self._value(change, change.before, row, origin, now_ns)
        return (Event(value, self.key(row), (), origin.committed_us // 1000),)

    def _rare_events(self, change: Change, origin: Origin, now_ns: int) -> Iterator[Event]:
        op, before, after = change.op, change.before, change.after
        time_ms = origin.committed_us // 1000
        if op is Op.TRUNCATE:
            if self._format is not Format.FLAT:
                yield Event(self._value(change, None, None, origin, now_ns), None, (), time_ms)
            return
        if change.moved and before is not None:
            # To consumers a row with another key is another row, so a change of the key is a delete
            # and an insert.
            gone = change._replace(op=Op.DELETE, after=None, moved=False)
            yield from self._rare_events(gone, origin, now_ns)
            change = change._replace(op=Op.CREATE, before=None)
            op, before = Op.CREATE, None
        row = before if after is None else after
        assert row is not None
        key = self.key(row)
        if op is not Op.DELETE:
            yield Event(self._value(change, before, after, origin, now_ns), key, (), time_ms)
            return
        if self._format is not Format.FLAT:
            yield Event(self._value(change, before, None, origin, now_ns), key, (), time_ms)
        if key is not None and (self._tombstones or self._format is Format.FLAT):
            yield Event(None, key, (), time_ms)

    def _value(
        self, change: Change, before: Row | None, after: Row | None, origin: Origin, now_ns: int
    ) -> bytes:
        transaction = None if origin.order is None else origin.order.next(self.table.id)
        if self._format is Format.FLAT:
            return _encode(after)
        version, kind, name, database, _, _, epoch = self._common
        if before is not None and self._filled:
            before = {**self._filled, **before}
        us = origin.committed_us
        payload = {
            "before": before,
            "after": after,
            "source": {
                "version": version,
                "connector": kind,
                "name": name,
                "ts_ms": us // 1000,
                "snapshot": origin.snapshot,
                "db": database,
                "sequence": None,
                "ts_us": us,
                "ts_ns": us * 1000,
                **change.source,
                **({"epoch": epoch} if epoch else {}),
            },
            "transaction": transaction,
            "op": change.op,
            "ts_ms": now_ns // 1_000_000,
            "ts_us": now_ns // 1000,
            "ts_ns": now_ns,
        }
        if self._format is Format.CLOUDEVENTS:
            row = before if after is None else after
            key = None if row is None else self.key(row)
            return _encode(cloud_event(payload, change.source, key))
        return self._with(self._value_head, _encode(payload))

    def _with(self, head: bytes, payload: bytes) -> bytes:
        return head + payload + b"}" if head else payload


def _filled(column: Column) -> object:
    if column.optional:
        return None
    name, kind = str(column.schema.get("name")), str(column.schema["type"])
    return _EMPTY_NAMED[name] if name in _EMPTY_NAMED else _EMPTY.get(kind)


def _head(schema: Mapping[str, object]) -> bytes:
    return b'{"schema":' + _encode(schema) + b',"payload":'


def _field(name: str, schema: Mapping[str, object], *, optional: bool) -> dict[str, object]:
    return {**schema, "optional": optional, "field": name}


def _struct(
    name: str, fields: list[dict[str, object]], *, optional: bool = False, **more: object
) -> dict[str, object]:
    return {"type": "struct", "fields": fields, "optional": optional, "name": name, **more}


def _columns(table: Table) -> list[dict[str, object]]:
    return [_field(each.name, each.schema, optional=each.optional) for each in table.columns]


def _key_schema(topic: str, table: Table) -> Mapping[str, object]:
    by_name = {each.name: each for each in table.columns}
    fields = [_field(each, by_name[each].schema, optional=False) for each in table.key]
    return _struct(f"{topic}.Key", fields)


def _value_schema(topic: str, table: Table, common: Common) -> Mapping[str, object]:
    row = _struct(f"{topic}.Value", _columns(table), optional=True)
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {**_source_schema(common), "field": "source"},
        {**_TRANSACTION, "field": "transaction"},
        _field("op", {"type": "string"}, optional=False),
        *(_field(each, _INT64, optional=True) for each in ("ts_ms", "ts_us", "ts_ns")),
    ]
    return _struct(f"{topic}.Envelope", fields, version=2)


_EMPTY: dict[str, object] = {
    "boolean": False,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
    "array": [],
}
"""What Debezium writes for a value that is missing and must be there,"""
_EMPTY_NAMED: dict[str, object] = {
    "org.apache.kafka.connect.data.Decimal": b"\0",
    "io.debezium.data.VariableScaleDecimal": {"scale": 0, "value": b"\0"},
    "io.debezium.time.ZonedTime": "00:00:00Z",
    "io.debezium.time.ZonedTimestamp": "1970-01-01T00:00:00Z",
    "io.debezium.data.geometry.Point": {
        "x": 0.0,
        "y": 0.0,
        "wkb": b"\1\1" + bytes(19),
        "srid": None,
    },
}
"""and for those whose schema has a name."""
_INT64 = {"type": "int64"}
_SNAPSHOT = {
    "type": "string",
    "optional": True,
    "name": "io.debezium.data.Enum",
    "version": 1,
    "parameters": {
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,"
        "incremental"
    },
    "default": "false",
}
_TEXT = {"type": "string"}
_TRANSACTION = _struct(
    "event.block",
    [
        _field("id", _TEXT, optional=False),
        _field("total_order", _INT64, optional=False),
        _field("data_collection_order", _INT64, optional=False),
    ],
    optional=True,
    version=1,
)


def _source_schema(common: Common) -> dict[str, object]:
    source = common.source
    fields = [
        *(_field(each, _TEXT, optional=False) for each in ("version", "connector", "name")),
        _field("ts_ms", _INT64, optional=False),
        {**_SNAPSHOT, "field": "snapshot"},
        _field("db", _TEXT, optional=False),
        _field("sequence", _TEXT, optional=True),
        _field("ts_us", _INT64, optional=True),
        _field("ts_ns", _INT64, optional=True),
        *(
            _field(name, {"type": kind}, optional=optional)
            for name, kind, optional in source.fields
        ),
        # Only after a snapshot has begun an epoch: until then the schema is exactly Debezium's.
        *([_field("epoch", _INT64, optional=True)] if common.epoch else ()),
    ]
    return _struct(source.name, fields, version=1)
