"""Reads a whole table of a database, to compare it with the table that a pipeline made of it.

Column types, which say how values are compared, have PostgreSQL's names for all databases.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, unquote, urlsplit

from mainstem.pipelines.errors import RunRefused, importing
from mainstem.pipelines.sinks.statements import quoted

Row = Mapping[str, object]
Found = tuple[dict[str, str], list[Row]]
"""The types of columns, and rows."""

_NATIVE = frozenset(
    (
        "bool",
        "int2",
        "int4",
        "int8",
        "oid",
        "float4",
        "float8",
        "bytea",
        "bpchar",
        "varchar",
        "text",
    )
)
"""Types that are read as they are; others are read as text."""
_MARIADB = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), "integer"),
    "decimal": "numeric",
    "float": "float4",
    "double": "float8",
    "date": "date",
    **dict.fromkeys(("datetime", "timestamp"), "timestamp"),
    "time": "micros",
    "bit": "bit",
    "json": "json",
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "bytea"),
}
"""The types of MariaDB that are not compared as text."""
_SQLITE = (
    ("JSON", "json"),
    ("DATETIME", "timestamp"),
    ("TIMESTAMP", "timestamp"),
    ("DATE", "date"),
    ("INT", "integer"),
    ("BOOL", "integer"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("TIME", "text"),
    ("BLOB", "bytea"),
)
"""What a declared type contains, in this order; others are numbers."""


def database_rows(topic: str, names: Sequence[str], database: str) -> Found:
    """Return column types and rows, with the columns ``names``, of the table behind ``topic``.

    The topic has the table's changes and is named PREFIX.SCHEMA.TABLE. Raises RunRefused if there
    is no such table or column, or the database cannot be read.
    """
    schema, dot, name = ".".join(topic.rsplit(".", 2)[-2:]).rpartition(".")
    if not dot:
        raise RunRefused(
            f"the topic {topic!r} does not say which table its changes are of; topics of "
            "connectors are named PREFIX.SCHEMA.TABLE"
        )
    scheme = database.partition(":")[0]
    read = _READERS.get(scheme, _postgres_rows)
    return read(schema, name, names, database)


def _check_columns(where: str, types: Mapping[str, str], names: Sequence[str]) -> None:
    if unknown := [each for each in names if each not in types]:
        raise RunRefused(
            f"the database's table {where} does not exist"
            if not types
            else f"the database's table {where} has no column {unknown[0]!r}"
        )


# PostgreSQL


def _postgres_rows(schema: str, name: str, names: Sequence[str], database: str) -> Found:
    with importing("comparing with PostgreSQL", "psycopg", extra="postgres"):
        import psycopg  # noqa: PLC0415 - an extra
    where = f"{quoted(schema)}.{quoted(name)}"
    try:
        with psycopg.connect(
            database, connect_timeout=10, options="-c timezone=UTC -c datestyle=ISO"
        ) as base:
            base.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            base.read_only = True
            types: dict[str, str] = dict(
                base.execute(
                    "SELECT attname, typname FROM pg_attribute JOIN pg_type t ON t.oid = atttypid "
                    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                    (where,),
                ).fetchall()
            )
            _check_columns(where, types, names)
            columns = [
                quoted(each) if _is_native(types[each]) else f"{quoted(each)}::text"
                for each in names
            ]
            found = base.execute(f"SELECT {', '.join(columns)} FROM {where}".encode()).fetchall()
    except psycopg.Error as error:
        raise RunRefused(f"the database's table {where} cannot be read: {error}") from None
    return types, [dict(zip(names, row, strict=True)) for row in found]


def _is_native(kind: str) -> bool:
    # The names of array types begin with an underscore.
    return kind in _NATIVE or kind.startswith("_")


# MariaDB


def _mariadb_rows(schema: str, name: str, names: Sequence[str], database: str) -> Found:
    with importing("comparing with MariaDB", "PyMySQL", extra="mysql"):
        import pymysql  # noqa: PLC0415 - an extra
    url = urlsplit(database)
    # MYSQL_PWD, as for MariaDB's own programs: other users see a password in a command's arguments.
    password = unquote(url.password or "") or os.environ.get("MYSQL_PWD", "")
    where = f"{_backquoted(schema)}.{_backquoted(name)}"
    try:
        base = pymysql.connect(
            host=url.hostname or "127.0.0.1",
            port=url.port or 3306,
            user=unquote(url.username or ""),
            password=password,
            connect_timeout=10,
            charset="utf8mb4",
            init_command="SET time_zone = '+00:00'",
        )
        with base, base.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            cursor.execute(
                "SELECT column_name, data_type, column_type FROM information_schema.columns "
                "WHERE table_schema = %s AND table_name = %s",
                (schema, name),
            )
            described = {str(column): (str(a), str(b)) for column, a, b in cursor.fetchall()}
            _check_columns(where, {each: kind for each, (kind, _) in described.items()}, names)
            columns = [
                # A float is shown with six digits otherwise.
                f"CAST({_backquoted(each)} AS DOUBLE)"
                if described[each][0] == "float"
                else _backquoted(each)
                for each in names
            ]
            cursor.execute(f"SELECT {', '.join(columns)} FROM {where}")
            found = cursor.fetchall()
    except pymysql.Error as error:
        raise RunRefused(f"the database's table {where} cannot be read: {error}") from None
    types = {each: _MARIADB.get(described[each][0], "text") for each in names}
    for each in names:
        if types[each] == "bit":
            types[each] = "bool" if described[each][1] == "bit(1)" else "bytea"
    read = [_mariadb_value(types[each], described[each][0]) for each in names]
    rows: list[Row] = [
        {each: published(value) for each, published, value in zip(names, read, row, strict=True)}
        for row in found
    ]
    return types, rows


def _mariadb_value(kind: str, stored: str) -> Callable[[object], object]:
    """Return a function that converts a value as the connector does before it publishes it."""

    def value_of(value: object) -> object:
        if stored == "bit" and isinstance(value, bytes):
            return value != b"\0" if kind == "bool" else value[::-1]
        # A date such as 0000-00-00, which is no date elsewhere.
        if kind in ("date", "timestamp") and isinstance(value, str):
            return None
        return value

    return value_of


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# SQLite


def _sqlite_rows(_schema: str, name: str, names: Sequence[str], database: str) -> Found:
    path = unquote(urlsplit(database).path)
    where = quoted(name)
    try:
        base = sqlite3.connect(f"{_file_url(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            base.text_factory = lambda text: text.decode("utf-8", "replace")
            base.execute("BEGIN")
            types = {
                str(column): _sqlite_type(str(declared))
                for column, declared in base.execute(
                    "SELECT name, type FROM pragma_table_xinfo(?)", (name,)
                )
            }
            _check_columns(where, types, names)
            columns = ", ".join(map(quoted, names))
            found = base.execute(f"SELECT {columns} FROM {where}").fetchall()
        finally:
            base.close()
    except sqlite3.Error as error:
        raise RunRefused(f"the database's table {where} cannot be read: {error}") from None
    return types, [dict(zip(names, row, strict=True)) for row in found]


def _file_url(path: str) -> str:
    return "file:" + quote(path)


def _sqlite_type(declared: str) -> str:
    upper = declared.upper()
    found = (kind for part, kind in _SQLITE if part in upper)
    return next(found, "numeric" if upper else "text")


_READERS: Mapping[str, Callable[[str, str, Sequence[str], str], Found]] = {
    "mariadb": _mariadb_rows,
    "mysql": _mariadb_rows,
    "sqlite": _sqlite_rows,
}
