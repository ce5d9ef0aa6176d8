"""Rows in a PostgreSQL table; the mark is a row of the same transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.errors import StoreUnavailable, importing
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.statements import (
    MARKS,
    Statements,
    check_types,
    mark_with,
    quoted,
    table_of,
    text_of,
)

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_PASSING = ("08", "53", "57P", "40001", "40P01")
"""SQLSTATEs of errors that pass: connections, resources such as disk space, a server that is
stopping or starting, and transactions that conflicted.
"""
_TYPES = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "decimal": "numeric",
}
"""PostgreSQL types by Spark type; all others are jsonb."""


class PostgresSink(msgspec.Struct, frozen=True):
    """A table of a PostgreSQL database: rows are appended, or replace rows with the same key."""

    dsn: str
    table: str
    key: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The name of the table, for messages; shows no password."""
        return f"PostgreSQL table {self.table}"

    def check(self, columns: "StructType") -> None:
        """Create the table if it does not exist; raise InvalidDefinition if its columns differ."""
        from mainstem.pipelines.sinks.collecting import check_columns  # noqa: PLC0415

        check_columns(columns, self.key, self.latest, self.place)
        wanted = {field.name: _type(field.dataType) for field in columns}
        with self._opened() as base:
            base.execute(MARKS)
            base.execute(Statements(self.table, tuple(wanted), self.key).create(wanted).encode())
            found: dict[str, str] = dict(
                base.execute(
                    "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
                    "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
                    "ORDER BY attnum",
                    (quoted(self.table),),
                ).fetchall()
            )
        check_types(self.place, found, wanted)

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Commit the rows and the mark in one transaction."""
        from mainstem.pipelines.sinks.collecting import collected, split  # noqa: PLC0415

        with self._opened() as base:
            if _is_written(base, mark):
                return False
        # Run Spark's work before anything is locked.
        data = collected(rows, self.key, self.latest)
        if not data.num_rows and not mark.replace:
            return True
        with self._opened() as base:
            # A driver that is considered dead may still be writing, so the lock makes this one wait
            # for it.
            base.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (mark.pipeline,))
            if _is_written(base, mark):
                return True
            if mark.replace:
                base.execute(f"DELETE FROM {quoted(self.table)}".encode())
            found = split(data)
            names = tuple(found.stored.column_names)
            statements = Statements(self.table, names, self.key, self.latest)
            with base.cursor() as cursor:
                cursor.executemany(statements.insert("%s").encode(), _values(found.stored))
                if found.deleted.num_rows:
                    cursor.executemany(
                        statements.delete("%s").encode(), _values(found.deleted.select(self.key))
                    )
            base.execute(mark_with("%s"), (mark.pipeline, mark.batch))
        return True

    def read(self) -> "pa.Table | None":
        """Return all rows; nested values as JSON text."""
        with self._opened() as base:
            known = base.execute("SELECT to_regclass(%s)", (quoted(self.table),)).fetchone()
            if known is None or known[0] is None:
                return None
            cursor = base.execute(f"SELECT * FROM {quoted(self.table)}".encode())
            names = [column.name for column in cursor.description or ()]
            rows = [[_value(value) for value in row] for row in cursor.fetchall()]
        return table_of(names, rows)

    def beside(self, name: str) -> Sink:
        """Return a sink for a copy of this table: ``TABLE__NAME`` in the same database."""
        return msgspec.structs.replace(self, table=f"{self.table}__{name}")

    def swap(self, name: str) -> None:
        """Replace this table by the copy; the old table is kept as ``__before_NAME``.

        The new table gets the privileges that roles have on the old one.
        """
        with self._opened() as base:
            copy, old = f"{self.table}__{name}", f"{self.table}__before_{name}"
            known = base.execute("SELECT to_regclass(%s)", (quoted(copy),)).fetchone()
            if known is None or known[0] is None:
                return
            self._copy_privileges(base, copy)
            base.execute(
                f"ALTER TABLE IF EXISTS {quoted(self.table)} RENAME TO {quoted(old)}".encode()
            )
            base.execute(f"ALTER TABLE {quoted(copy)} RENAME TO {quoted(self.table)}".encode())

    def _copy_privileges(self, base: "psycopg.Connection", copy: str) -> None:
        granted = base.execute(
            "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' "
            "ELSE quote_ident(pg_get_userbyid(grantee)) END, is_grantable "
            "FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass(%s)",
            (quoted(self.table),),
        ).fetchall()
        for privilege, role, is_grantable in granted:
            option = " WITH GRANT OPTION" * is_grantable
            base.execute(f"GRANT {privilege} ON {quoted(copy)} TO {role}{option}".encode())

    @contextmanager
    def _opened(self) -> "Iterator[psycopg.Connection]":
        """Open a connection; a server that is away, then or later, raises StoreUnavailable."""
        with importing("p.postgres", "psycopg", extra="postgres"):
            import psycopg  # noqa: PLC0415 - an extra
        try:
            with psycopg.connect(self.dsn, connect_timeout=10) as base:
                yield base
        except psycopg.OperationalError as error:
            # A connection that fails, or is cut, has no SQLSTATE.
            if error.sqlstate is None or error.sqlstate.startswith(_PASSING):
                raise StoreUnavailable(self.place, error) from None
            raise


def _is_written(base: "psycopg.Connection", mark: Mark) -> bool:
    asked = "SELECT batch FROM _mainstem_batches WHERE pipeline = %s"
    written = base.execute(asked, (mark.pipeline,)).fetchone()
    return written is not None and bool(written[0] >= mark.batch)


def _type(kind: "DataType") -> str:
    return _TYPES.get(kind.typeName(), "jsonb")


def _values(rows: "pa.Table") -> list[list[object]]:
    return [[_value(value) for value in row.values()] for row in rows.to_pylist()]


def _value(value: object) -> object:
    return text_of(value) if isinstance(value, (dict, list)) else value
