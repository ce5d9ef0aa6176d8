"""The tables of an SQLite database: columns, keys, and how their values are published.

An SQLite column has an affinity, which follows from its declared type, but may hold values of any
type. A value is published as it is stored; the schema is that of the affinity.
"""

import math
import sqlite3
from collections.abc import Sequence

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import Column, Key, Row, Table
from mainstem.connectors.sqlite.connections import name
from mainstem.connectors.sqlite.values import KeyValue, fitted, key_from_text, schema_of_type

SCHEMA = "main"
OWN = "_mainstem_"
"""How the names of the connector's own tables begin."""
_ROWIDS = ("rowid", "_rowid_", "oid")
_INFINITE = (math.inf, -math.inf)


class StoredColumn(msgspec.Struct, frozen=True):
    """A column, as SQLite describes it."""

    name: str
    type: str
    is_required: bool
    default: str | None = None
    """The default as an SQL expression."""


class Definition(msgspec.Struct, frozen=True):
    """The columns and keys of a table at one time; stored in the database as a version."""

    table: str
    columns: tuple[StoredColumn, ...]
    key: tuple[str, ...]
    order: tuple[str, ...]
    """The columns that every row has another value of: the key, or the rowid."""
    unique: tuple[tuple[str, ...], ...] = ()
    """The columns of unique indexes other than the key's."""


class Captured:
    """A version of a table: converts values that SQLite stores to rows and keys."""

    def __init__(self, definition: Definition, version: int, *, fits: bool) -> None:
        """``fits``: whether ``row`` refuses values that their column's schema does not allow."""
        self.definition = definition
        self.version = version
        self.table = Table(
            SCHEMA,
            definition.table,
            tuple(
                Column(each.name, each.type, schema_of_type(each.type), not each.is_required)
                for each in definition.columns
            ),
            definition.key,
        )
        self.names = tuple(each.name for each in definition.columns)
        self.key_places = tuple(self.names.index(each) for each in definition.key)
        self._kinds: list[str] | None = None
        if fits:
            self._kinds = [str(each.schema["type"]) for each in self.table.columns]

    def row(self, values: Sequence[object]) -> Row:
        """Return a row; with ``fits``, raises SourceRefused for values that the schema forbids."""
        if self._kinds is not None:
            values = [
                self._fitted(place, value, kind)
                for place, (value, kind) in enumerate(zip(values, self._kinds, strict=True))
            ]
        row: Row = dict(zip(self.names, values, strict=True))
        # JSON has no infinities; Kafka Connect's JSON converter writes them as text.
        if _INFINITE[0] in values or _INFINITE[1] in values:
            for each, value in row.items():
                if isinstance(value, float) and math.isinf(value):
                    row[each] = "Infinity" if value > 0 else "-Infinity"
        return row

    def key_of(self, values: Sequence[object]) -> tuple[tuple[type, object], ...]:
        """Return the key's values, each with its type, as 1 and 1.0 are different keys in JSON."""
        return tuple((type(values[place]), values[place]) for place in self.key_places)

    def _fitted(self, place: int, value: object, kind: str) -> object:
        try:
            return fitted(value, kind)
        except ValueError as error:
            where = f"{self.table.id}.{self.names[place]}"
            raise SourceRefused(
                f"column {where}: {error}; use --events json, which publishes values as they are "
                f"stored, or leave the column out (--exclude-columns {where})"
            ) from None


def definitions(connection: sqlite3.Connection) -> list[Definition]:
    """Return all tables on which triggers can be created, in the order of their names."""
    rows = connection.execute("PRAGMA main.table_list").fetchall()
    found = sorted(
        (str(row[1]), bool(row[4])) for row in rows if row[0] == SCHEMA and row[2] == "table"
    )
    return [
        _definition(connection, table, without_rowid=without_rowid)
        for table, without_rowid in found
        if not table.lower().startswith(("sqlite_", OWN))
    ]


def _definition(connection: sqlite3.Connection, table: str, *, without_rowid: bool) -> Definition:
    info = connection.execute(f"PRAGMA main.table_xinfo({name(table)})").fetchall()
    keyed = sorted((int(row[5]), str(row[1])) for row in info if row[5])
    columns = []
    for _, column, kind, is_required, default, place, _ in info:
        # A primary key may have NULLs in SQLite, unless it is the rowid or the table has none.
        never_null = place and (without_rowid or (kind.upper() == "INTEGER" and len(keyed) == 1))
        columns.append(StoredColumn(column, kind, bool(is_required or never_null), default))
    key = tuple(each for _, each in keyed)
    unique = []
    for index in connection.execute(f"PRAGMA main.index_list({name(table)})").fetchall():
        if index[2] and index[3] != "pk":
            parts = connection.execute(f"PRAGMA main.index_info({name(index[1])})").fetchall()
            # The columns of an index on expressions have no names.
            if all(part[2] is not None for part in parts):
                unique.append(tuple(str(part[2]) for part in parts))
    order = key if without_rowid else (_rowid({each.name.lower() for each in columns}, table),)
    return Definition(table, tuple(columns), key, order, tuple(sorted(unique)))


def _rowid(columns: set[str], table: str) -> str:
    for each in _ROWIDS:
        if each not in columns:
            return each
    raise SourceRefused(
        f"table {SCHEMA}.{table} has columns called {', '.join(_ROWIDS)}, so its rows cannot be "
        "told apart: rename one, or leave the table out"
    )


def select(definition: Definition, after: Key | None) -> tuple[str, list[KeyValue]]:
    """Return a query for the rows after a key, in the order of the key, and its parameters.

    Its first columns are those that the rows are ordered by, then come those of the table.
    """
    order, values = definition.order, list[KeyValue]()
    by = ", ".join(order if order != definition.key else map(name, order))
    columns = ", ".join(name(each.name) for each in definition.columns)
    query = f"SELECT {by}, {columns} FROM main.{name(definition.table)}"
    if after is not None and len(after) == len(order):
        values = [key_from_text(each) for each in after]
        query += f" WHERE ({by}) > ({', '.join('?' * len(order))})"
    return f"{query} ORDER BY {by}", values
