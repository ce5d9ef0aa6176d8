"""PostgreSQL as a source: logical replication with ``pgoutput``, snapshots by COPY.

How this works: a replication slot makes PostgreSQL keep its WAL from a position on, and exports a
snapshot of exactly that moment. A second connection imports the snapshot and reads the tables;
replication from the slot then returns every transaction that was committed after it.

A table can also be read while its changes are followed (``read``): by a query in a transaction of
its own, which can tell which transactions it sees. Rows are returned only if it sees every
transaction that was followed before; otherwise an older row could overwrite a newer change. A
message is written to the WAL after the query; when it is followed, all changes up to the query are.

Consumers order changes by ``sequence``: the end of the last commit before their transaction's, then
their own WAL position. The WAL position alone is no order, as a transaction may write before
another one that commits first. Rows read while following have the end of the last followed commit;
rows of a snapshot have the position where the slot begins to decode, before all its changes.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import psycopg
from psycopg import sql

from mainstem.connectors import port
from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.postgres import publication, table_locks
from mainstem.connectors.postgres.captured import Captured, CapturedColumn
from mainstem.connectors.postgres.catalog import Catalog, CatalogTable, check_tables
from mainstem.connectors.postgres.changes import Changes
from mainstem.connectors.postgres.connections import Connections, translated
from mainstem.connectors.postgres.pgoutput import Relation
from mainstem.connectors.postgres.replication import Keepalive, ReplicationConnection, parse_lsn
from mainstem.connectors.selection import Selection
from mainstem.connectors.settings import ConnectorSettings

_IDENTITY = """
SELECT system_identifier::text || '/' || current_database() FROM pg_control_system()
"""
_WAIT_S = 0.1
_STATUS_S = 5.0
_RECENT = 10_000
_ATTEMPTS = 20
"""How often a snapshot is begun anew because a table was changed at that moment."""
_PAUSE_S = 0.2
_ROWS_AT_ONCE = 2_000
"""How many rows of a snapshot are passed on at a time."""


class PostgresSource:
    """A PostgreSQL database, as the source of one connector."""

    def __init__(self, settings: ConnectorSettings, password: Callable[[], str | None]) -> None:
        self._settings = settings
        self._connections = Connections(settings.url, settings.name, password)
        self._selection = Selection(settings)
        self.slot = settings.slot or f"mainstem_{settings.name}".lower().replace("-", "_")
        self.publication = settings.publication or self.slot
        self._connection: psycopg.Connection | None = None
        self._stream: ReplicationConnection | None = None
        self._confirmed = 0
        self._status_at = 0.0
        self._reached = 0
        self._begun = (port.Position((-1,), ""), 0)
        """Where the last slot began, and where the oldest changes are that it returns."""
        self._changes: Changes | None = None
        self._awaited = 0
        """Where a chunk holds: the server is asked until it has decoded so far."""
        self._recent: deque[int] = deque(maxlen=_RECENT)
        """Ids of the transactions that were followed last."""

    @property
    def database(self) -> str:
        """The name of the database."""
        return self._connections.database

    # Describing

    def tables(self) -> Sequence[port.Table]:
        """Check that the database can be followed, and return the tables to capture."""
        with translated():
            connection = self._query()
            publication.check_server(connection)
            return [each.table for each in self._captured(connection)]

    def capture(self, tables: Sequence[port.Table]) -> None:
        """Create the publication, or add the tables to it that it lacks."""
        with translated():
            connection = self._query()
            names = [(each.schema, each.name) for each in tables]
            publication.ensure(connection, self.publication, names)

    def _captured(self, connection: psycopg.Connection) -> list[Captured]:
        catalog = Catalog(connection, self._settings.decimals)
        tables = catalog.tables()
        chosen = [each for each in tables if self._selection.has(each.schema, each.name)]
        self._selection.check_found([each.id for each in chosen])
        keys = [catalog.key(each.oid, each.identity) for each in chosen]
        check_tables(chosen, keys)
        return [_described(catalog, *each) for each in zip(chosen, keys, strict=True)]

    # Snapshots

    def begin(self) -> port.Snapshot:
        """Create the slot; return a view of the moment from which it keeps changes."""
        with translated():
            for _ in range(_ATTEMPTS):
                if (snapshot := self._begin()) is not None:
                    return snapshot
                # Lets statements end that have waited for the locks: PostgreSQL may not be able to
                # decode a transaction that truncates a table while the slot is created.
                time.sleep(_PAUSE_S)
        raise SourceFailed(
            "a table to capture was locked, altered or truncated every time a snapshot began"
        )

    def _begin(self) -> port.Snapshot | None:
        """Begin a snapshot; return None if a table was changed before it could be locked."""
        publication.drop_slot(self._query(), self.slot)
        stream = ReplicationConnection(self._connections.conninfo)
        try:
            lsn, name = stream.create_slot(self.slot)
            reader = self._connections.open()
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(name)))
        finally:
            # The snapshot remains valid in the transaction that imported it.
            stream.close()
        captured = self._captured(reader)
        tables = [each.table for each in captured]
        if (
            not table_locks.lock(reader, [(each.schema, each.name) for each in tables])
            or table_locks.are_rewritten(reader, tables)
            or _shapes(tables) != _shapes(each.table for each in self._captured(self._query()))
        ):
            reader.close()
            return None
        position = port.Position((lsn,), self.identity())
        oldest = publication.oldest_change(self._query(), self.slot)
        self._begun = position, oldest
        return _PostgresSnapshot(reader, captured, position, oldest)

    def identity(self) -> str:
        """Return a text that identifies this database among all others."""
        found = self._query().execute(_IDENTITY).fetchone()
        assert found is not None
        return str(found[0])

    def source_at(self, table: port.Table, position: port.Position) -> Mapping[str, object]:
        """Return ``Change.source`` of what is published of a table at a position."""
        return _source(table, position.at[0])

    def read(self, table: str, after: port.Key | None, limit: int) -> port.Chunk | None:
        """Return rows after a key; None if reads do not see a followed transaction yet."""
        with translated():
            connection = self._query()
            names = table_locks.names_of(connection, table)
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                # Before the first query, which takes the transaction's snapshot.
                if not table_locks.lock(connection, names):
                    return None
                row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
                assert row is not None
                if not all(map(_visible_in(str(row[0])), self._recent)):
                    return None
                captured = {each.table.id: each for each in self._captured(connection)}
                found = captured.get(table)
                if found is None:
                    raise SourceRefused(f"there is no table {table} to read")
                lsn = 0 if self._changes is None else self._changes.begin_lsn
                rows = list(_copied(connection, found, after, limit, lsn))
            # A transaction of its own, which is decoded and followed even if nobody else writes.
            row = connection.execute(
                "SELECT pg_logical_emit_message(true, 'mainstem', 'chunk')::text"
            ).fetchone()
            assert row is not None
            self._awaited = parse_lsn(row[0])
            changes, keys = [each for each, _ in rows], [key for _, key in rows]
            at = port.Position((self._awaited,), self.identity())
            return port.Chunk(changes, keys, at, is_last=len(rows) < limit)

    # Following

    def follow(self, position: port.Position) -> Iterator[port.Item | None]:
        """Yield all changes after a position, for ever; None whenever there is none for now."""
        with translated():
            connection = self._query()
            publication.check_slot(
                connection, self.slot, self.publication, position, self.identity()
            )
            self._confirmed = self._reached = position.at[0]
            self._recent.clear()
            begun, oldest = self._begun
            changes = self._changes = Changes(
                position,
                self._describe,
                self._selection,
                oldest_lsn=oldest if position == begun else None,
            )
            stream = self._stream = ReplicationConnection(self._connections.conninfo)
            stream.start(self.slot, self.publication, position.at[0])
            yield from self._follow(stream, changes)

    def _follow(
        self, stream: ReplicationConnection, changes: Changes
    ) -> Iterator[port.Item | None]:
        receive, decode = stream.receive, changes.decode
        while True:
            message = receive()
            if message is None:
                yield None
                self._idle(stream)
            elif isinstance(message, Keepalive):
                self._reached = max(self._reached, message.wal_end)
                if message.asks:
                    self._send_status(stream)
                progress = changes.progress(message.wal_end)
                if progress is not None:
                    yield progress
            else:
                xid = changes.begins(message.data)
                if xid is not None:
                    self._recent.append(xid)
                yield from decode(message.lsn, message.data)

    def _idle(self, stream: ReplicationConnection) -> None:
        asks = self._reached < self._awaited
        if asks or time.monotonic() - self._status_at > _STATUS_S:
            self._send_status(stream, asks=asks)
        stream.wait(_WAIT_S / 5 if asks else _WAIT_S)

    def _send_status(self, stream: ReplicationConnection, *, asks: bool = False) -> None:
        self._status_at = time.monotonic()
        stream.status(self._reached, self._confirmed, time.time_ns() // 1000, asks=asks)

    def confirm(self, position: port.Position) -> None:
        """Tell PostgreSQL that the connector no longer needs the WAL before a position."""
        if position.at[0] > self._confirmed and self._stream is not None:
            self._confirmed = position.at[0]
            self._send_status(self._stream)

    def _describe(self, relation: Relation) -> Captured:
        """Return the table of a Relation message; adds what only the catalog has."""
        with translated():
            catalog = Catalog(self._query(), self._settings.decimals)
            now = {each.name: each for each in catalog.columns(relation.oid)}
            if relation.identity in ("d", "i"):
                key = tuple(each.name for each in relation.columns if each.is_key)
                order = catalog.key(relation.oid, relation.identity)
                key = order if set(order) == set(key) else key
            else:
                there = {each.name for each in relation.columns}
                key = tuple(
                    each for each in catalog.key(relation.oid, relation.identity) if each in there
                )
            columns = []
            for each in relation.columns:
                known = now.get(each.name)
                same = known is not None and known.type_oid == each.type_oid
                columns.append(
                    CapturedColumn(
                        each.name,
                        each.type_oid,
                        each.type_modifier,
                        known.type_text
                        if known is not None and same
                        else catalog.type_text(each.type_oid, each.type_modifier),
                        not (known is not None and known.is_required),
                        catalog.mapped(each.type_oid, each.type_modifier),
                    )
                )
            return Captured(relation.schema, relation.name, columns, key)

    # Watching

    def watch(self) -> port.Watch:
        """Return how much WAL the slot keeps, and why it cannot be used any more, if so."""
        with translated():
            return publication.watch_slot(self._query(), self.slot, self._settings.max_slot_bytes)

    def release(self) -> None:
        """Drop the slot, and the publication unless the user named one in the settings."""
        self._close_stream()
        with translated():
            publication.drop_slot(self._query(), self.slot)
            if not self._settings.publication:
                publication.drop(self._query(), self.publication)

    def close(self) -> None:
        """Close all connections."""
        self._close_stream()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _query(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connections.open()
        return self._connection


class _PostgresSnapshot:
    """The tables as they were when the slot was created."""

    def __init__(
        self,
        reader: psycopg.Connection,
        tables: Sequence[Captured],
        position: port.Position,
        lsn: int,
    ) -> None:
        self._reader = reader
        self._tables = {each.table.id: each for each in tables}
        self.position = position
        self._lsn = lsn

    def tables(self) -> Sequence[port.Table]:
        """Return the tables to capture, with the columns that ``rows`` returns."""
        return [each.table for each in self._tables.values()]

    def source(self, table: port.Table) -> Mapping[str, object]:
        """Return ``Change.source`` for the rows of a table."""
        return _source(table, self._lsn)

    def rows(self, table: port.Table) -> Iterator[Sequence[tuple[port.Change, port.Key]]]:
        """Yield the rows of a table in lists, in the order of its key."""
        with translated():
            piece: list[tuple[port.Change, port.Key]] = []
            for each in _copied(self._reader, self._tables[table.id], None, None, self._lsn):
                piece.append(each)
                if len(piece) >= _ROWS_AT_ONCE:
                    yield piece
                    piece = []
            yield piece

    def close(self) -> None:
        """Close the connection, which ends the transaction that keeps the snapshot."""
        self._reader.close()


def _described(catalog: Catalog, table: CatalogTable, key: tuple[str, ...]) -> Captured:
    columns = [
        CapturedColumn(
            each.name,
            each.type_oid,
            each.type_modifier,
            each.type_text,
            not each.is_required,
            catalog.mapped(each.type_oid, each.type_modifier),
        )
        for each in catalog.columns(table.oid)
    ]
    return Captured(table.schema, table.name, columns, key)


def _copied(
    connection: psycopg.Connection,
    captured: Captured,
    after: port.Key | None,
    limit: int | None,
    lsn: int,
) -> Iterator[tuple[port.Change, port.Key]]:
    """Yield the rows of a table after a key, in the order of the key, read by COPY."""
    table, types = captured.table, {each.name: each.type_text for each in captured.columns}
    columns = sql.SQL(", ").join(sql.Identifier(each.name) for each in captured.columns)
    query = sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(table.schema, table.name))
    key = sql.SQL(", ").join(sql.Identifier(each) for each in table.key)
    # If the key has other columns now, the table is read again from its start.
    if after is not None and len(after) == len(table.key):
        bounds = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(types[name]))
            for value, name in zip(after, table.key, strict=True)
        )
        query += sql.SQL(" WHERE ({}) > ({})").format(key, bounds)
    if table.key:
        query += sql.SQL(" ORDER BY {}").format(key)
    if limit is not None:
        query += sql.SQL(" LIMIT {}").format(sql.Literal(limit))
    source = _source(table, lsn)
    convert, key_of, read = captured.whole_row, captured.key, port.Op.READ
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("COPY ({}) TO STDOUT").format(query)) as copy,
    ):
        for values in copy.rows():
            row = list(values)
            yield port.Change(table, read, None, convert(row), source), key_of(row)


def _source(table: port.Table, lsn: int) -> dict[str, object]:
    return {
        "sequence": f'[null,"{lsn}"]',
        "schema": table.schema,
        "table": table.name,
        "txId": None,
        "lsn": lsn,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }


def _shapes(tables: Iterable[port.Table]) -> list[tuple[object, ...]]:
    """Return what tables consist of, to compare them."""
    return [(each.id, each.columns, each.key) for each in tables]


def _visible_in(snapshot: str) -> Callable[[int], bool]:
    """Return a function that tells whether a snapshot sees a transaction, given its 32-bit id."""
    low, high, running = snapshot.split(":")
    xmin, xmax = int(low) & 0xFFFFFFFF, int(high) & 0xFFFFFFFF
    open_ones = {int(each) & 0xFFFFFFFF for each in running.split(",") if each}

    def is_visible(xid: int) -> bool:
        # Ids wrap around: half of all ids count as before an id, half as after it.
        if (xid - xmin) & 0x80000000:
            return True
        return bool((xid - xmax) & 0x80000000) and xid not in open_ones

    return is_visible
