"""Reads MariaDB's catalog: the server's settings and its tables; checks both."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pymysql
from pymysql.connections import Connection
from pymysql.constants import ER

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.mariadb.captured import Captured
from mainstem.connectors.mariadb.columns import CatalogColumn, Charset, of_catalog
from mainstem.connectors.mariadb.connections import Row, name, query, text_of
from mainstem.connectors.selection import Selection
from mainstem.connectors.settings import Decimals

_ATTEMPTS = 20
_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_TABLES = """
SELECT t.table_schema, t.table_name, t.engine, ifnull(e.transactions, 'YES')
FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
WHERE t.table_type = 'BASE TABLE' AND t.table_schema NOT IN %s
ORDER BY 1, 2
"""
_COLUMNS = """
SELECT table_name, column_name, data_type, column_type, character_octet_length,
       numeric_precision, numeric_scale, datetime_precision, character_set_name, is_nullable
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
ORDER BY ordinal_position
"""
_KEY = """
SELECT column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index
"""
_CHARSETS = """
SELECT c.id, s.character_set_name, s.maxlen FROM information_schema.collations c
JOIN information_schema.character_sets s ON s.character_set_name = c.character_set_name
WHERE c.id IS NOT NULL
"""
_COLLATIONS_OF_MARIADB = """
SELECT c.id, s.character_set_name, s.maxlen
FROM information_schema.collation_character_set_applicability c
JOIN information_schema.character_sets s ON s.character_set_name = c.character_set_name
WHERE c.id IS NOT NULL
"""
_VARIABLES = """
SHOW GLOBAL VARIABLES WHERE variable_name LIKE '%bin%log%' OR variable_name LIKE 'log_bin%'
OR variable_name IN ('version', 'server_id', 'server_uuid')
"""
_WANTED = {
    "log_bin": ("1", "start it with --log-bin, and restart it"),
    "binlog_format": ("ROW", "SET GLOBAL binlog_format = ROW, and reconnect all programs"),
    "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = FULL, and reconnect all programs"),
    "binlog_row_metadata": ("FULL", "SET GLOBAL binlog_row_metadata = FULL"),
}


class Server(NamedTuple):
    """The properties of a server that connectors need to follow it."""

    identity: str
    is_mariadb: bool
    binlog: str
    """How the names of its binlog files begin."""
    by_collation: Mapping[int, Charset]

    @property
    def charsets(self) -> Mapping[str, Charset]:
        """The character sets by name."""
        return {each.name: each for each in self.by_collation.values()}

    def file(self, number: int) -> str:
        """Return the name of the binlog file with this number."""
        return f"{self.binlog}.{number:06}"


def check_server(connection: Connection) -> Server:
    """Return the properties of a server; raises SourceRefused if it cannot be followed."""
    variables = {text_of(row[0]): text_of(row[1]) for row in query(connection, _VARIABLES)}
    for variable, (wanted, action) in _WANTED.items():
        have = variables.get(variable)
        if have is None:
            raise SourceRefused(
                f"the server has no variable {variable}: connectors need MariaDB 10.5 or newer, "
                "or MySQL 8.0"
            )
        if have.upper() not in (wanted, "ON" if wanted == "1" else wanted):
            raise SourceRefused(
                f"the server's {variable} is {have}, and {'ON' if wanted == '1' else wanted} is "
                f"needed: {action}; keep it in its configuration file, too"
            )
    is_mariadb = "mariadb" in variables.get("version", "").lower()
    identity = variables.get("server_uuid") or f"server_id {variables.get('server_id')}"
    binlog = variables.get("log_bin_basename", "").rpartition("/")[2]
    statement = _COLLATIONS_OF_MARIADB if _has_ids(connection) else _CHARSETS
    charsets = {
        _number(row[0]): Charset(text_of(row[1]), _number(row[2]))
        for row in query(connection, statement)
    }
    return Server(identity, is_mariadb, binlog, charsets)


def _has_ids(connection: Connection) -> bool:
    """Return whether the catalog has the ids of collations where MariaDB, not MySQL, has them."""
    found = query(
        connection,
        "SELECT 1 FROM information_schema.columns WHERE table_schema = 'information_schema' AND "
        "table_name = 'collation_character_set_applicability' AND lower(column_name) = 'id'",
    )
    return bool(found)


class Catalog:
    """Queries of the catalog over one connection."""

    def __init__(self, connection: Connection, server: Server, decimals: Decimals) -> None:
        self._connection = connection
        self._server = server
        self._decimals = decimals

    def captured(
        self, selection: Selection, expected: Iterable[tuple[str, str]] = ()
    ) -> list[Captured]:
        """Return the tables to capture; raises SourceRefused if one of them cannot be captured.

        ``expected``: schema and name of tables that should be there.
        """
        found = []
        for row in self._listed(expected):
            schema, table, engine, has_transactions = map(text_of, row)
            if selection.has(schema, table):
                if has_transactions != "YES":
                    raise SourceRefused(
                        f"table {schema}.{table} is in engine {engine}, which has no transactions, "
                        f"so it cannot be read consistently: ALTER TABLE {schema}.{table} ENGINE = "
                        "InnoDB, or leave it out (--exclude)"
                    )
                found.append((schema, table))
        selection.check_found([f"{schema}.{table}" for schema, table in found])
        return [self.table(*each) for each in found]

    def _listed(self, expected: Iterable[tuple[str, str]]) -> list[Row]:
        """Return all tables.

        The list may lack a table that is just being altered. So the expected tables that it lacks
        are asked for by name, which waits for that statement's end; then all are listed again.
        """
        found: list[Row] = []
        for _ in range(_ATTEMPTS):
            found = query(self._connection, _TABLES, _SYSTEM)
            there = {(text_of(schema), text_of(table)) for schema, table, *_ in found}
            if not any(each not in there and self._exists(*each) for each in expected):
                break
        return found

    def _exists(self, schema: str, table: str) -> bool:
        try:
            query(self._connection, f"SELECT 1 FROM {name(schema)}.{name(table)} LIMIT 0")
        except pymysql.err.Error as error:
            if error.args and error.args[0] in {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR}:
                return False
            raise
        return True

    def table(self, schema: str, table: str) -> Captured:
        """Return a table with the columns that it has now."""
        rows = query(self._connection, _COLUMNS, schema, table)
        charsets = self._server.charsets
        try:
            specs = tuple(of_catalog(_column(row), charsets) for row in rows)
        except SourceRefused as error:
            raise SourceRefused(f"table {schema}.{table}: {error}") from None
        key = query(self._connection, _KEY, schema, table)
        return Captured(schema, table, specs, tuple(text_of(row[0]) for row in key), self._decimals)


def _column(row: Row) -> CatalogColumn:
    table, column, kind, type_text = map(text_of, row[:4])
    octets, precision, scale, fraction = (None if each is None else int(each) for each in row[4:8])
    return CatalogColumn(
        table,
        column,
        kind,
        type_text,
        octets,
        precision,
        scale,
        fraction,
        text_of(row[8]),
        row[9] == "YES",
    )


def _number(value: str | bytes | None) -> int:
    return int(value or 0)
