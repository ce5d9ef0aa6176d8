"""MariaDB as a source: follows the binlog; takes snapshots by consistent reads.

How this works: with a consistent read MariaDB also reports its position in the binlog, so a
snapshot reads the tables without any lock, and the binlog is followed from that position. MySQL
does not report it: all tables are locked for a moment, in which the read begins and the position is
queried.

A table can also be read while its changes are followed (``read``), by another consistent read. The
binlog may already have transactions that are about to be committed and that reads do not see yet;
if such a one was followed, the read is repeated later. A position is a binlog file, a place in it,
and the last transaction before it. The transaction shows whether the binlog was begun anew, with
the same file names.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
import pymysql
from pymysql.connections import Connection
from pymysql.constants import ER
from pymysql.cursors import SSCursor

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.mariadb.captured import Captured
from mainstem.connectors.mariadb.catalog import Catalog, Server, check_server
from mainstem.connectors.mariadb.changes import Changes, Context, source_of
from mainstem.connectors.mariadb.connections import Connections, address_of, name, query, translated
from mainstem.connectors.mariadb.stream import BinlogStream
from mainstem.connectors.port import Change, Chunk, Item, Key, Op, Position, Snapshot, Table, Watch
from mainstem.connectors.selection import Selection
from mainstem.connectors.settings import ConnectorSettings

_WAIT_S = 0.1
_ANSWER_S = 5.0
_ROWS_AT_ONCE = 2_000
_ATTEMPTS = 20
"""How often a snapshot is begun anew because a table was altered at that moment."""
_CHANGED = {ER.NO_SUCH_TABLE, ER.TABLE_DEF_CHANGED}
_PURGED = 1236
"""The server's error about a position that its binlog does not have."""


class MariaDbSource:
    """The databases of one MariaDB or MySQL server, as the source of one connector."""

    def __init__(self, settings: ConnectorSettings, password: Callable[[], str | None]) -> None:
        self._settings = settings
        self._connections = Connections(address_of(settings.url), password)
        self._selection = Selection(settings)
        if not settings.tables:
            everything = (f"{self.database}.*",)
            self._selection = Selection(msgspec.structs.replace(settings, tables=everything))
        self._expected = self._selection.named()
        """The tables that were there when they were last listed, by schema and name."""
        self._connection: Connection | None = None
        self._stream: BinlogStream | None = None
        self._server: Server | None = None
        self._may_follow = False
        self._confirmed: Position | None = None
        self._followed: Position | None = None

    @property
    def database(self) -> str:
        """The name of the database."""
        return self._connections.address.database

    @property
    def _again(self) -> str:
        return f"take a new snapshot: mainstem connector restart {self._settings.name} --snapshot"

    # Describing

    def tables(self) -> Sequence[Table]:
        """Check that the database can be followed, and return the tables to capture."""
        with translated():
            connection = self._query()
            if not self._may_follow:
                # Whether the user may follow the binlog is in no table of the catalog, so this
                # tries it.
                file, at = self._end(connection)
                stream = self._open_stream(self._described().file(file), at, role="check")
                with suppress(SourceFailed):
                    stream.receive(_ANSWER_S)
                stream.close()
                self._may_follow = True
            return [each.table for each in self._captured()]

    def capture(self, tables: Sequence[Table]) -> None:
        """Do nothing: the binlog has the changes of all tables anyway."""

    def _described(self) -> Server:
        if self._server is None:
            self._server = check_server(self._query())
        return self._server

    def _catalog(self) -> Catalog:
        return Catalog(self._query(), self._described(), self._settings.decimals)

    def _captured(self) -> list[Captured]:
        found = self._catalog().captured(self._selection, self._expected)
        self._expected = [(each.table.schema, each.table.name) for each in found]
        return found

    # Snapshots

    def begin(self) -> Snapshot:
        """Return a consistent view of all tables, and the binlog position of that moment."""
        with translated():
            for _ in range(_ATTEMPTS):
                reader = self._connections.open()
                file, at = self._consistent(reader)
                captured = self._locked(reader, [each.table for each in self._captured()])
                if captured is not None:
                    position = self._position(reader, file, at)
                    return _MariaDbSnapshot(reader, captured, position, self._described())
                reader.close()
        raise SourceFailed("a table to capture was altered every time a snapshot began")

    def _locked(self, reader: Connection, tables: Iterable[Table]) -> list[Captured] | None:
        """Lock the definitions of tables until the reader's transaction ends, and return them.

        Returns None if a table was altered after the transaction's consistent read began: then its
        rows cannot be read any more.
        """
        found = []
        for each in tables:
            try:
                # Nobody can alter a table that an open transaction has read.
                query(reader, f"SELECT 1 FROM {name(each.schema)}.{name(each.name)} LIMIT 1")
            except pymysql.err.Error as error:
                if error.args and error.args[0] in _CHANGED:
                    return None
                raise
            found.append(self._catalog().table(each.schema, each.name))
        return found

    def _consistent(self, reader: Connection) -> tuple[int, int]:
        """Begin a consistent read; return file number and place of its binlog position.

        In MySQL, all tables are locked for a moment.
        """
        locks = not self._described().is_mariadb
        query(reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if locks:
            query(reader, "FLUSH TABLES WITH READ LOCK")
        query(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        if locks:
            found = self._end(reader)
            query(reader, "UNLOCK TABLES")
            return found
        file, position, *_ = query(reader, "SHOW STATUS LIKE 'binlog_snapshot_%'")
        return _place(file[1], position[1])

    def _end(self, connection: Connection) -> tuple[int, int]:
        try:
            rows = query(connection, "SHOW MASTER STATUS")
        except pymysql.err.ProgrammingError:
            # MySQL 8.4 knows the statement only by this name.
            rows = query(connection, "SHOW BINARY LOG STATUS")
        return _place(rows[0][0], rows[0][1])

    def _position(self, connection: Connection, file: int, at: int) -> Position:
        server = self._described()
        last = (0, 0, 0)
        if server.is_mariadb:
            gtids = self._gtids(connection, file, at)
            last = gtids[0] if gtids else last
        return Position((file, at, *last), server.identity)

    def _gtids(self, connection: Connection, file: int, at: int) -> list[tuple[int, int, int]]:
        """Return the last transaction of each GTID domain before a place of the binlog."""
        name = self._described().file(file)
        rows = query(connection, "SELECT BINLOG_GTID_POS(%s, %s)", name, at)
        found = []
        for each in str(rows[0][0] or "").split(","):
            if each:
                domain, server, sequence = map(int, each.split("-"))
                found.append((domain, server, sequence))
        return found

    def source_at(self, table: Table, position: Position) -> Mapping[str, object]:
        """Return ``Change.source`` of what is published of a table at a position."""
        with translated():
            return _read_source(table, self._described(), *position.at[:2])

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        """Return rows after a key; None if reads do not see a followed transaction yet."""
        with translated():
            server = self._described()
            there = {each.table.id: each.table for each in self._captured()}
            if table not in there:
                raise SourceRefused(f"there is no table {table} to read")
            connection = self._query()
            file, at = self._consistent(connection)
            try:
                if self._followed is not None and self._followed.at[:2] > (file, at):
                    return None
                found = self._locked(connection, [there[table]])
                if found is None:
                    return None
                (captured,) = found
                rows = query(connection, captured.query(after, limit))
            finally:
                query(connection, "ROLLBACK")
            read = [captured.read(row) for row in rows]
            source = _read_source(captured.table, server, file, at)
            return Chunk(
                [Change(captured.table, Op.READ, None, row, source) for row, _ in read],
                [key for _, key in read],
                Position((file, at), server.identity),
                is_last=len(rows) < limit,
            )

    # Following

    def follow(self, position: Position) -> Iterator[Item | None]:
        """Yield all changes after a position, for ever; None whenever there is none for now."""
        with translated():
            server = self._described()
            self._check(position, server)
            self._confirmed = position
            stream = self._stream = self._open_stream(server.file(position.at[0]), position.at[1])
            context = Context(
                server,
                self._selection,
                self._settings.decimals,
                self._coded,
                self._again,
                self._present,
            )
            changes = Changes(position, context, has_checksums=stream.has_checksums)
            while True:
                data = self._receive(stream, 0)
                if data is None:
                    if (moved := changes.progress()) is not None:
                        yield moved
                    yield None
                    data = self._receive(stream, _WAIT_S)
                if data is not None:
                    yield from changes.decode(data)
                    self._followed = changes.position

    def _receive(self, stream: BinlogStream, wait_s: float) -> bytes | None:
        try:
            return stream.receive(wait_s)
        except pymysql.err.Error as error:
            if error.args and error.args[0] == _PURGED:
                raise self._lost(f"the server says: {error.args[1]}") from None
            raise

    def _check(self, position: Position, server: Server) -> None:
        """Raise SourceRefused if the binlog does not have all changes after a position."""
        if position.of != server.identity:
            raise self._lost(
                f"this is another server than before ({server.identity}, before {position.of})"
            )
        last = position.at[2:5]
        if not server.is_mariadb or not any(last):
            return
        gtids = self._gtids(self._query(), position.at[0], position.at[1])
        if last not in gtids:
            text = "-".join(map(str, last))
            raise self._lost(
                f"transaction {text} is not before place {position.at[1]} of file "
                f"{server.file(position.at[0])}: the file was purged, or the binlog began anew"
            )

    def _lost(self, why: str) -> SourceRefused:
        return SourceRefused(
            f"the binlog does not have the changes after our position: {why}; {self._again}"
        )

    def _open_stream(self, file: str, at: int, role: str = "follow") -> BinlogStream:
        # Each replica of a server has a number of its own. If two connections have the same, the
        # server closes the older one, such as that of a node that was killed.
        name = f"mainstem {role} {self._settings.name}"
        number = 0x40000000 | zlib.crc32(name.encode()) & 0x3FFFFFFF
        if role == "follow":
            number = self._settings.server_id or number
        return BinlogStream(self._connections.open(), file, at, number)

    def _coded(self, schema: str, table: str) -> Mapping[str, str]:
        with translated():
            rows = query(
                self._query(),
                "SELECT column_name, data_type FROM information_schema.columns "
                "WHERE table_schema = %s AND table_name = %s",
                schema,
                table,
            )
        return {str(column): str(kind) for column, kind in rows}

    def _present(self, schema: str, table: str) -> Captured:
        """Return a table with its present columns; without any if it is gone."""
        with translated():
            return self._catalog().table(schema, table)

    def confirm(self, position: Position) -> None:
        """Store up to where changes are published, for ``watch``; nothing is sent to the server."""
        self._confirmed = position

    # Watching

    def watch(self) -> Watch:
        """Return how many bytes of binlog there are after the confirmed position."""
        position = self._confirmed
        if position is None:
            return Watch(0)
        with translated():
            rows = query(self._query(), "SHOW BINARY LOGS")
        sizes = {int(str(row[0]).rpartition(".")[2]): int(row[1] or 0) for row in rows}
        if position.at[0] not in sizes:
            return Watch(0, str(self._lost("its file was purged")))
        later = sum(size for number, size in sizes.items() if number >= position.at[0])
        return Watch(max(0, later - position.at[1]))

    def release(self) -> None:
        """Do nothing, because the connector creates nothing in the database."""

    def close(self) -> None:
        """Close all connections."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._connection is not None:
            with suppress(pymysql.err.Error):
                self._connection.close()
            self._connection = None

    def _query(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = self._connections.open()
        return self._connection


class _MariaDbSnapshot:
    """The tables as they were at one position of the binlog."""

    def __init__(
        self, reader: Connection, tables: Sequence[Captured], position: Position, server: Server
    ) -> None:
        self._reader = reader
        self._tables = {each.table.id: each for each in tables}
        self._server = server
        self.position = position

    def tables(self) -> Sequence[Table]:
        """Return the tables to capture, with the columns that ``rows`` returns."""
        return [each.table for each in self._tables.values()]

    def source(self, table: Table) -> Mapping[str, object]:
        """Return ``Change.source`` for the rows of a table."""
        return _read_source(table, self._server, *self.position.at[:2])

    def rows(self, table: Table) -> Iterator[Sequence[tuple[Change, Key]]]:
        """Return the rows of a table in the order of its key."""
        captured, source = self._tables[table.id], self.source(table)
        with translated(), self._reader.cursor(SSCursor) as cursor:
            cursor.execute(captured.query(None, None))
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                piece = []
                for values in rows:
                    row, key = captured.read(values)
                    piece.append((Change(captured.table, Op.READ, None, row, source), key))
                yield piece

    def close(self) -> None:
        """Close the connection, which ends the transaction that keeps the snapshot."""
        # Closing it in the usual way would first receive all rows that were not read.
        self._reader._force_close()


def _read_source(table: Table, server: Server, file: int, at: int) -> dict[str, object]:
    return source_of(table, server_id=0, gtid=None, file=server.file(file), pos=at, row=0)


def _place(file: str | bytes | None, position: str | bytes | None) -> tuple[int, int]:
    return int(str(file).rpartition(".")[2]), int(position or 0)
