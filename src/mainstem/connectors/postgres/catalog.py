"""Reads PostgreSQL's catalog: tables and types; checks whether tables can be captured."""

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.postgres.types import Mapped, Type, mapped
from mainstem.connectors.settings import Decimals

_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relreplident::text, c.relpersistence::text,
       has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY 2, 3
"""
_COLUMNS = """
SELECT attname, atttypid::int8, atttypmod, format_type(atttypid, atttypmod), attnotnull
FROM pg_attribute
WHERE attrelid = %s::int8 AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""
_INDEX = """
SELECT a.attname
FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place)
JOIN pg_attribute a ON a.attnum = k.attnum
WHERE i.indrelid = %s::int8 AND a.attrelid = i.indrelid
  AND CASE WHEN %s THEN i.indisreplident ELSE i.indisprimary END
  AND k.place <= i.indnkeyatts
ORDER BY k.place
"""
_TYPE = """
SELECT oid::int8, typname, typtype::text, typbasetype::int8, typtypmod, typelem::int8,
       typoutput = 'array_out'::regproc,
       ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
FROM pg_type t WHERE oid = %s::int8
"""
_UNKNOWN = Type(0, "", "b", 0, -1, 0, is_array=False)


class CatalogTable(NamedTuple):
    """A table of the catalog."""

    oid: int
    schema: str
    name: str
    identity: str
    """The replica identity: d(efault), n(othing), f(ull), i(ndex)."""
    persistence: str
    is_readable: bool

    @property
    def id(self) -> str:
        """The table's name in settings: ``schema.name``."""
        return f"{self.schema}.{self.name}"


class CatalogColumn(NamedTuple):
    """A column of the catalog."""

    name: str
    type_oid: int
    type_modifier: int
    type_text: str
    is_required: bool


class Catalog:
    """Queries of the catalog over one connection; caches the types."""

    def __init__(self, connection: psycopg.Connection, decimals: Decimals) -> None:
        self._connection = connection
        self._decimals = decimals
        self._types: dict[int, Type] = {}

    def tables(self) -> list[CatalogTable]:
        """Return all tables that may be captured; of partitioned tables the root only."""
        return [CatalogTable(*row) for row in self._connection.execute(_TABLES)]

    def columns(self, table: int) -> list[CatalogColumn]:
        """Return the columns that replication sends, in order; none if the table does not exist."""
        return [CatalogColumn(*row) for row in self._connection.execute(_COLUMNS, (table,))]

    def key(self, table: int, identity: str) -> tuple[str, ...]:
        """Return the columns of the primary key, or of the replica identity's index."""
        rows = self._connection.execute(_INDEX, (table, identity == "i"))
        return tuple(name for (name,) in rows)

    def mapped(self, oid: int, modifier: int) -> Mapped:
        """Return how values of a type are published."""
        return mapped(oid, modifier, self._type, self._decimals)

    def type_text(self, oid: int, modifier: int) -> str:
        """Return the name of a type as PostgreSQL writes it."""
        row = self._connection.execute(
            "SELECT format_type(%s::int8::oid, %s)", (oid, modifier)
        ).fetchone()
        return "" if row is None else str(row[0])

    def _type(self, oid: int) -> Type:
        found = self._types.get(oid)
        if found is None:
            row = self._connection.execute(_TYPE, (oid,)).fetchone()
            # The type was dropped since; its values are published as text.
            found = _UNKNOWN if row is None else Type(*row)
            self._types[oid] = found
        return found


def check_tables(chosen: Sequence[CatalogTable], keys: Sequence[tuple[str, ...]]) -> None:
    """Raise SourceRefused if a table cannot be captured; the message says what to do."""
    for table, key in zip(chosen, keys, strict=True):
        if table.persistence != "p":
            raise SourceRefused(
                f"table {table.id} is unlogged or temporary, so PostgreSQL does not replicate it: "
                f"ALTER TABLE {table.id} SET LOGGED, or leave it out"
            )
        if not table.is_readable:
            raise SourceRefused(
                f"the user may not read table {table.id}: GRANT SELECT ON {table.id} to it, or "
                "leave the table out"
            )
        if table.identity != "f" and not key:
            raise SourceRefused(
                f"table {table.id} has no primary key, and once it is published PostgreSQL would "
                f"refuse UPDATE and DELETE: add a key, or ALTER TABLE {table.id} REPLICA IDENTITY "
                "FULL, or leave the table out"
            )
