"""Locks tables while they are read, so that their columns and rows stay as a snapshot sees them.

A transaction sees rows as they were when its snapshot was taken, but tables as they are now: a
column that was dropped since cannot be read, and a table that was rewritten since (``TRUNCATE``,
some forms of ``ALTER TABLE``) looks empty. PostgreSQL, "Caveats" of MVCC.
"""

from collections.abc import Sequence

import psycopg
from psycopg import sql

from mainstem.connectors.port import Table

_TIMEOUT = "500ms"
"""Shorter than PostgreSQL's ``deadlock_timeout``: in a deadlock the connector must give way, not
the user's statement."""
_NAMES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname || '.' || c.relname = %s
"""
_IS_REWRITTEN = """
SELECT EXISTS (
  SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND (c.relispartition OR n.nspname || '.' || c.relname = ANY(%s))
    AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid))
"""


def names_of(connection: psycopg.Connection, table: str) -> list[tuple[str, str]]:
    """Return schema and name of a table given as ``schema.name``; empty if there is none."""
    return connection.execute(_NAMES, (table,)).fetchall()


def lock(connection: psycopg.Connection, names: Sequence[tuple[str, str]]) -> bool:
    """Lock tables, given by schema and name, against changes of their definition and TRUNCATE.

    The locks end with the transaction. Returns False if a table cannot be locked now, or does not
    exist; then the transaction is useless.
    """
    if not names:
        return True
    tables = sql.SQL(", ").join(sql.Identifier(*each) for each in names)
    try:
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_TIMEOUT)))
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(tables))
        connection.execute("SET LOCAL lock_timeout TO DEFAULT")
    except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
        return False
    return True


def are_rewritten(connection: psycopg.Connection, tables: Sequence[Table]) -> bool:
    """Tell whether locked tables were truncated or rewritten after the transaction's snapshot."""
    row = connection.execute(_IS_REWRITTEN, ([each.id for each in tables],)).fetchone()
    assert row is not None
    return bool(row[0])
