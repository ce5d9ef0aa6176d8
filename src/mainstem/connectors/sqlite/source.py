"""SQLite as a source: triggers record changes, which are read as soon as they are committed.

How this works: ``recording`` makes the database write every change into a table of its own, so
changes of all programs are recorded. SQLite does not tell where a transaction ends. So changes are
published in the order of commits, and those that are found together in one append, unless they are
many. A position is the number and the time of the last change; that change stays recorded, so that
a database that was restored to an earlier state is recognised.
"""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import (
    Begin,
    Change,
    Chunk,
    Commit,
    Item,
    Key,
    Op,
    Position,
    Progress,
    SchemaChange,
    Snapshot,
    Table,
    Watch,
)
from mainstem.connectors.selection import Selection
from mainstem.connectors.settings import ConnectorSettings, Format
from mainstem.connectors.sqlite.connections import (
    name,
    open_database,
    path_of,
    transaction,
    translated,
)
from mainstem.connectors.sqlite.recording import AGAIN, Recording
from mainstem.connectors.sqlite.tables import SCHEMA, Captured, Definition, definitions, select
from mainstem.connectors.sqlite.values import key_to_text

_ROWS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 4 * 1024 * 1024
_WAIT_S = 0.1
_SHORTEST_S, _LONGEST_S = 0.0005, 0.01
"""Between two looks at the version of the data."""
_TRIM_S = 1.0
_TRIM_ROWS = 10_000
_TRIM_WAIT_MS = 50
_INVALID_TEXT = "Could not decode to UTF-8"


class SqliteSource:
    """An SQLite database file, as the source of one connector."""

    def __init__(self, settings: ConnectorSettings) -> None:
        self._settings = settings
        self._path = path_of(settings.url)
        self._selection = Selection(settings)
        self._fits = settings.format is Format.JSON_SCHEMA
        self._connection: sqlite3.Connection | None = None
        self._opened: Recording | None = None
        self._confirmed: Position | None = None
        self._trimmed_s = 0.0
        self._pause_s = _SHORTEST_S

    @property
    def database(self) -> str:
        """The name of the file without its suffix."""
        return self._path.stem

    # Describing

    def tables(self) -> Sequence[Table]:
        """Check that the database can be followed, and return the tables to capture."""
        with translated():
            found = self._chosen()
            self._selection.check_found([f"{SCHEMA}.{each.table}" for each in found])
            return [Captured(each, 0, fits=self._fits).table for each in found]

    def capture(self, tables: Sequence[Table]) -> None:
        """Create the triggers of tables that have none yet."""
        wanted = {each.name for each in tables}
        with translated():
            self._recording().ensure(
                lambda: [each for each in self._chosen() if each.table in wanted]
            )

    def _chosen(self) -> list[Definition]:
        found = definitions(self._query())
        return [each for each in found if self._selection.has(SCHEMA, each.table)]

    # Snapshots

    def begin(self) -> Snapshot:
        """Return a consistent view of the database; all later changes are recorded."""
        with translated():
            reader = open_database(self._path)
            (mode,) = reader.execute("PRAGMA main.journal_mode").fetchone()
            if str(mode).lower() != "wal":
                # Without SQLite's WAL mode a long read would keep others from writing, so a copy is
                # read.
                copy = sqlite3.connect("", isolation_level=None)
                try:
                    reader.backup(copy)
                finally:
                    reader.close()
                reader = copy
            reader.execute("BEGIN")
            recording = Recording(reader, self._settings.name, fits=self._fits)
            self._confirmed = None
            return _SqliteSnapshot(reader, recording)

    def source_at(self, table: Table, position: Position) -> Mapping[str, object]:
        """Return ``Change.source`` of what is published of a table at a position."""
        return _source(table, position.at[0])

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        """Return rows after a key; never None, as reads see all recorded changes."""
        with translated():
            connection, recording = self._query(), self._recording()
            with transaction(connection):
                found = recording.current().get(table.partition(".")[2])
                if found is None or not self._selection.has(*table.split(".", 1)):
                    raise SourceRefused(f"there is no table {table} to read")
                at = recording.last()
                query, values = select(found.definition, after)
                cursor = _decoding(connection, f"{query} LIMIT {limit}", values)
                rows = [_read(found, row, at) for row in cursor]
            return Chunk(
                [change for change, _ in rows],
                [key for _, key in rows],
                at,
                is_last=len(rows) < limit,
            )

    # Following

    def follow(self, position: Position) -> Iterator[Item | None]:
        """Yield all changes after a position, for ever; None whenever there is none for now."""
        with translated():
            connection, recording = self._query(), self._recording()
            recording.check(position)
            self._confirmed = position
            seq, schema, versions = position.at[0], -1, dict[str, Captured]()
            while True:
                seen = _number(connection, "data_version")
                if schema != (now := _number(connection, "schema_version")):
                    schema = now
                    self._keep_up(recording)
                rows = self._changes(seq)
                for row in rows:
                    yield from self._items(recording, versions, position.of, row)
                    seq = row[0]
                if rows:
                    self._pause_s = _SHORTEST_S
                if len(rows) < _ROWS_AT_ONCE:
                    yield None
                    self._wait(connection, seen)

    def _keep_up(self, recording: Recording) -> None:
        """Adapt the triggers of recorded tables that were altered; the runner adds new tables."""
        known = recording.current()
        recording.ensure(lambda: [each for each in self._chosen() if each.table in known])

    def _changes(self, seq: int) -> list[tuple[int, ...]]:
        """Return the next changes after a number, at most as many as are read at once."""
        changes = name(self._recording().names.changes)
        cursor = _decoding(
            self._query(), f"SELECT * FROM {changes} WHERE seq > ? ORDER BY seq", [seq]
        )
        rows: list[tuple[int, ...]] = []
        size = 0
        for row in cursor:
            rows.append(row)
            size += _size(row)
            if len(rows) >= _ROWS_AT_ONCE or size > _BYTES_AT_ONCE:
                break
        # An open cursor would keep SQLite from truncating its WAL, or others from writing.
        cursor.close()
        if rows and rows[0][0] != seq + 1:
            raise SourceRefused(
                f"changes {seq + 1} to {rows[0][0] - 1} are missing in {changes}: somebody has "
                f"deleted them; {AGAIN.replace('NAME', self._settings.name)}"
            )
        return rows

    def _items(
        self,
        recording: Recording,
        versions: dict[str, Captured],
        identity: str,
        row: Sequence[int],
    ) -> Iterator[Item]:
        seq, at_ms, version, op = row[:4]
        captured = recording.captured(version)
        table = captured.table
        position = Position((seq, at_ms), identity)
        source = _source(table, seq)
        is_captured = self._selection.has(SCHEMA, table.name)
        if is_captured and versions.get(table.name) is not captured:
            versions[table.name] = captured
            yield SchemaChange(table, is_new=False, source=source)
        if str(op) == "s" or not is_captured:
            yield Progress(position)
            return
        yield Begin(str(seq), at_ms * 1000)
        yield _change(captured, Op(str(op)), row, source)
        yield Commit(position)

    def _wait(self, connection: sqlite3.Connection, seen: int) -> None:
        """Wait until another connection has written, at most ``_WAIT_S``."""
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline and _number(connection, "data_version") == seen:
            time.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 1.2, _LONGEST_S)

    def confirm(self, position: Position) -> None:
        """Delete recorded changes before a position, at most once a second, if nobody writes."""
        self._confirmed = position
        if time.monotonic() - self._trimmed_s < _TRIM_S:
            return
        self._trimmed_s = time.monotonic()
        connection = self._query()
        with translated(), suppress(sqlite3.OperationalError):
            # Other programs' writes have priority, so do not wait long for the lock.
            (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {_TRIM_WAIT_MS}")
            try:
                self._recording().trim(position, _TRIM_ROWS)
            finally:
                connection.execute(f"PRAGMA busy_timeout = {before}")

    # Watching

    def watch(self) -> Watch:
        """Return how many bytes of changes are recorded and not published.

        Removes the recording if that is more than ``max_slot_bytes``.
        """
        with translated():
            recording = self._recording()
            lag = recording.kept_bytes(self._confirmed or Position((0, 0), ""))
            most = self._settings.max_slot_bytes
            if most and lag > most:
                recording.remove()
                return Watch(
                    0,
                    f"the database had recorded {lag} bytes of changes, more than max_slot_bytes "
                    f"({most}), so recording was ended; "
                    f"{AGAIN.replace('NAME', self._settings.name)}",
                )
            return Watch(lag)

    def release(self) -> None:
        """Remove the triggers and tables of the recording from the database."""
        with translated():
            self._recording().remove()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._opened = None

    def _query(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_database(self._path)
        return self._connection

    def _recording(self) -> Recording:
        if self._opened is None:
            self._opened = Recording(self._query(), self._settings.name, fits=self._fits)
        return self._opened


class _SqliteSnapshot:
    """The tables as they were at one moment."""

    def __init__(self, reader: sqlite3.Connection, recording: Recording) -> None:
        self._reader = reader
        # The first read begins SQLite's transaction, and so fixes the moment.
        self.position = recording.last()
        self._tables = recording.current()

    def tables(self) -> Sequence[Table]:
        """Return the tables to capture, with the columns that ``rows`` returns."""
        return [each.table for each in self._tables.values()]

    def source(self, table: Table) -> Mapping[str, object]:
        """Return ``Change.source`` for the rows of a table."""
        return _source(table, self.position.at[0])

    def rows(self, table: Table) -> Iterator[Sequence[tuple[Change, Key]]]:
        """Yield the rows of a table in lists, in the order of its key."""
        with translated():
            found = self._tables[table.name]
            query, values = select(found.definition, None)
            piece: list[tuple[Change, Key]] = []
            size = 0
            for row in _decoding(self._reader, query, values):
                piece.append(_read(found, row, self.position))
                size += _size(row)
                if len(piece) >= _ROWS_AT_ONCE or size > _BYTES_AT_ONCE:
                    yield piece
                    piece, size = [], 0
            yield piece

    def close(self) -> None:
        """Close the connection, which ends the transaction that keeps the snapshot."""
        self._reader.close()


def _change(captured: Captured, op: Op, row: Sequence[object], source: dict[str, object]) -> Change:
    table, count = captured.table, len(captured.names)
    if op is Op.TRUNCATE:
        return Change(table, op, None, None, source)
    first = row[4 : 4 + count]
    if op is Op.DELETE:
        return Change(table, op, captured.row(first), None, source)
    if op is not Op.UPDATE:
        return Change(table, op, None, captured.row(first), source)
    before = row[4 + count : 4 + 2 * count]
    moved = captured.key_of(before) != captured.key_of(first)
    return Change(table, op, captured.row(before), captured.row(first), source, moved)


def _read(captured: Captured, row: Sequence[object], at: Position) -> tuple[Change, Key]:
    count = len(captured.definition.order)
    source = _source(captured.table, at.at[0])
    change = Change(captured.table, Op.READ, None, captured.row(row[count:]), source)
    return change, tuple(map(key_to_text, row[:count]))


def _source(table: Table, seq: int) -> dict[str, object]:
    return {"schema": SCHEMA, "table": table.name, "seq": seq}


def _size(row: Sequence[object]) -> int:
    return sum(len(each) for each in row if isinstance(each, str | bytes))


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA main.{pragma}").fetchone()[0])


def _decoding(
    connection: sqlite3.Connection, query: str, values: Sequence[object]
) -> sqlite3.Cursor:
    connection.text_factory = _decoded
    return connection.execute(query, values)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
