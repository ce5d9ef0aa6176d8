"""Rows in a SQLite table; the mark is a row of the same transaction."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.errors import InvalidDefinition
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
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_TYPES = {
    "boolean": "INTEGER",
    "byte": "INTEGER",
    "short": "INTEGER",
    "integer": "INTEGER",
    "long": "INTEGER",
    "float": "REAL",
    "double": "REAL",
    "binary": "BLOB",
}
"""SQLite types by Spark type; others are TEXT: exact decimals, ISO times (UTC), nested values as
JSON.
"""


class SqliteSink(msgspec.Struct, frozen=True):
    """A table of a SQLite database: rows are appended, or replace rows with the same key."""

    path: str
    table: str
    key: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The file and table, for messages."""
        return f"SQLite table {self.table} in {self.path}"

    def check(self, columns: "StructType") -> None:
        """Create the table if it does not exist; raise InvalidDefinition if its columns differ."""
        from mainstem.pipelines.sinks.collecting import check_columns  # noqa: PLC0415

        check_columns(columns, self.key, self.latest, self.place)
        for name in self.latest:
            if columns[name].dataType.typeName() in ("decimal", "struct", "array", "map"):
                raise InvalidDefinition(
                    f"{self.place}: {name!r} is kept as text, which does not sort as the value "
                    "does; name a time, a string or a whole number in latest="
                )
        wanted = {field.name: _TYPES.get(field.dataType.typeName(), "TEXT") for field in columns}
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        with closing(self._opened()) as base, base:
            base.execute(MARKS)
            base.execute(Statements(self.table, tuple(wanted), self.key).create(wanted))
            found = {row[1]: row[2] for row in base.execute(self._about_columns())}
        check_types(self.place, found, wanted)

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Commit the rows and the mark in one transaction."""
        from mainstem.pipelines.sinks.collecting import collected, split  # noqa: PLC0415

        with closing(self._opened()) as base:
            if _is_written(base, mark):
                return False
        # Let Spark compute the rows before the database is locked, as other tables write to it,
        # too.
        data = collected(rows, self.key, self.latest)
        if not data.num_rows and not mark.replace:
            return True
        with closing(self._opened()) as base, base:
            base.execute("BEGIN IMMEDIATE")
            if _is_written(base, mark):
                return True
            if mark.replace:
                base.execute(f"DELETE FROM {quoted(self.table)}")
            found = split(data)
            names = tuple(found.stored.column_names)
            statements = Statements(self.table, names, self.key, self.latest)
            base.executemany(statements.insert("?"), _values(found.stored))
            if found.deleted.num_rows:
                base.executemany(statements.delete("?"), _values(found.deleted.select(self.key)))
            base.execute(mark_with("?"), (mark.pipeline, mark.batch))
        return True

    def read(self) -> "pa.Table | None":
        """Return all rows, with values as SQLite stores them."""
        if not Path(self.path).exists():
            return None
        with closing(self._opened()) as base:
            names = [row[1] for row in base.execute(self._about_columns())]
            if not names:
                return None
            rows = base.execute(f"SELECT * FROM {quoted(self.table)}").fetchall()
        return table_of(names, rows)

    def beside(self, name: str) -> Sink:
        """Return the sink of a copy, another table in the same database."""
        return msgspec.structs.replace(self, table=f"{self.table}__{name}")

    def swap(self, name: str) -> None:
        """Replace this table by the copy; the old table is kept as ``__before_NAME``."""
        with closing(self._opened()) as base, base:
            base.execute("BEGIN IMMEDIATE")
            known = {row[0] for row in base.execute("SELECT name FROM sqlite_master")}
            if f"{self.table}__{name}" not in known:
                return
            if self.table in known:
                base.execute(_rename(self.table, f"{self.table}__before_{name}"))
            base.execute(_rename(f"{self.table}__{name}", self.table))

    def _opened(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=30)

    def _about_columns(self) -> str:
        return f"PRAGMA table_info({quoted(self.table)})"


def _is_written(base: sqlite3.Connection, mark: Mark) -> bool:
    asked = "SELECT batch FROM _mainstem_batches WHERE pipeline = ?"
    written = base.execute(asked, (mark.pipeline,)).fetchone()
    return written is not None and bool(written[0] >= mark.batch)


def _rename(old: str, new: str) -> str:
    return f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}"


def _values(rows: "pa.Table") -> Iterator[list[object]]:
    return ([_value(value) for value in row.values()] for row in rows.to_pylist())


def _value(value: object) -> object:
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    return text_of(value)
