"""The publication and the replication slot of a connector: created, checked, dropped."""

from collections.abc import Sequence

import psycopg
from psycopg import sql

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.port import Position, Watch
from mainstem.connectors.postgres.replication import format_lsn, parse_lsn

AGAIN = "take a new snapshot: mainstem connector restart NAME --snapshot"
_SLOT = """
SELECT plugin, database, active, coalesce(wal_status, ''), confirmed_flush_lsn::text,
       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8
FROM pg_replication_slots WHERE slot_name = %s
"""


def check_server(connection: psycopg.Connection) -> None:
    """Raise SourceRefused if the server has no logical replication, or the user may not use it."""
    row = connection.execute(
        "SELECT current_setting('wal_level'), current_setting('server_version_num')::int, "
        "(SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user), "
        "pg_is_in_recovery()"
    ).fetchone()
    assert row is not None
    wal_level, version, may_replicate, is_standby = row
    if version < 140000:
        raise SourceRefused(f"PostgreSQL {version // 10000} is too old: 14 is the oldest supported")
    if is_standby:
        raise SourceRefused("the server is a standby: connect to the primary")
    if wal_level != "logical":
        raise SourceRefused(
            f"wal_level is {wal_level}: ALTER SYSTEM SET wal_level = logical, and restart the "
            "database server"
        )
    if not may_replicate:
        raise SourceRefused(
            "the user may not replicate: ALTER ROLE … REPLICATION (on Amazon RDS: GRANT "
            "rds_replication TO …)"
        )


def ensure(connection: psycopg.Connection, name: str, tables: Sequence[tuple[str, str]]) -> None:
    """Create the publication, or add the missing ones of ``tables`` to it."""
    exists = connection.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, puballtables "
        "FROM pg_publication WHERE pubname = %s",
        (name,),
    ).fetchone()
    if exists is None:
        command = sql.SQL(
            "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
        )
        _run(connection, command.format(sql.Identifier(name), _listed(tables)))
        return
    publishes_all, all_tables = exists
    if not publishes_all:
        raise SourceRefused(
            f"publication {name} does not publish all of insert, update, delete and truncate: "
            f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"
        )
    if all_tables:
        return
    there = set(
        connection.execute(
            "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (name,)
        ).fetchall()
    )
    missing = [each for each in tables if each not in there]
    if missing:
        _add(connection, name, _listed(missing))


def _add(connection: psycopg.Connection, name: str, tables: sql.Composed) -> None:
    """Add tables to the publication while a lock keeps others from writing to them.

    Before PostgreSQL 16.9, an open transaction that has written to a table may make the decoder
    cache that the table is not published, and its later changes would be missing.
    """
    command = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(name), tables)
    try:
        with connection.transaction():
            connection.execute("SET LOCAL lock_timeout = '3s'")
            connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(tables))
            connection.execute(command)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _not_allowed(connection, command, error) from None
    except psycopg.errors.LockNotAvailable:
        raise SourceFailed(
            f"tables cannot be added to publication {name}, as a transaction that has written to "
            "one of them is still open"
        ) from None


def check_slot(
    connection: psycopg.Connection, slot: str, publication: str, position: Position, identity: str
) -> None:
    """Raise SourceRefused if slot or publication no longer have all changes after a position.

    Raises SourceFailed while another connection uses the slot.
    """
    if position.of != identity:
        raise SourceRefused(
            f"this is another database than before (identity {identity}, before {position.of}), "
            f"such as one restored from a copy: check the URL, or {AGAIN}"
        )
    row = connection.execute(_SLOT, (slot,)).fetchone()
    if row is None:
        raise SourceRefused(
            f"replication slot {slot} is gone: somebody dropped it, and changes since then are "
            f"lost to it; {AGAIN}"
        )
    plugin, _, active, status, confirmed, _ = row
    if plugin != "pgoutput":
        raise SourceRefused(f"replication slot {slot} uses {plugin}, not pgoutput: drop it")
    if status == "lost":
        raise SourceRefused(
            f"replication slot {slot} is invalid: the WAL it needs was removed because of "
            f"max_slot_wal_keep_size; {AGAIN}"
        )
    if confirmed is not None and parse_lsn(confirmed) > position.at[0]:
        raise SourceRefused(
            f"replication slot {slot} begins at {confirmed}, after our position "
            f"{format_lsn(position.at[0])}: it was created anew, or somebody else reads it, and "
            f"changes in between would be missing; {AGAIN}"
        )
    if active:
        raise SourceFailed(f"replication slot {slot} is used by another connection")
    found = connection.execute(
        "SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)
    ).fetchone()
    if found is None:
        raise SourceRefused(f"publication {publication} is gone: somebody dropped it; {AGAIN}")


def watch_slot(connection: psycopg.Connection, slot: str, max_bytes: int) -> Watch:
    """Return how much WAL the slot keeps; drop the slot if that is more than ``max_bytes``."""
    row = connection.execute(_SLOT, (slot,)).fetchone()
    if row is None:
        return Watch(0)
    lag = int(row[5] or 0)
    if row[3] == "lost":
        return Watch(lag, f"replication slot {slot} is invalid: its WAL was removed; {AGAIN}")
    if max_bytes and lag > max_bytes:
        drop_slot(connection, slot)
        return Watch(
            0,
            f"replication slot {slot} kept {lag} bytes of WAL, more than max_slot_bytes "
            f"({max_bytes}), and was dropped to protect the database's disk; {AGAIN}",
        )
    return Watch(lag)


def oldest_change(connection: psycopg.Connection, slot: str) -> int:
    """Return the WAL position where the slot begins to decode, before all of its changes."""
    row = connection.execute(
        "SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    if row is None or row[0] is None:
        raise SourceFailed(f"replication slot {slot} is gone: somebody else has dropped it")
    return parse_lsn(row[0])


def drop_slot(connection: psycopg.Connection, slot: str) -> None:
    """Drop the slot if it exists; ends a connection that uses it."""
    connection.execute(
        "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
        "WHERE slot_name = %s AND active",
        (slot,),
    )
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
        (slot,),
    )


def drop(connection: psycopg.Connection, name: str) -> None:
    """Drop the publication if it exists."""
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


def _run(connection: psycopg.Connection, command: sql.Composed) -> None:
    try:
        connection.execute(command)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _not_allowed(connection, command, error) from None


def _not_allowed(
    connection: psycopg.Connection, command: sql.Composed, error: Exception
) -> SourceRefused:
    return SourceRefused(
        "the user may not do it, so let the owner of the tables run: "
        f"{command.as_string(connection)}; ({' '.join(str(error).split())})"
    )


def _listed(tables: Sequence[tuple[str, str]]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*each) for each in tables)
