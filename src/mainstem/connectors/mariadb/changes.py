"""Turns the events of a binlog into transactions, changes and schema changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.mariadb import binlog
from mainstem.connectors.mariadb.captured import Captured
from mainstem.connectors.mariadb.catalog import Server
from mainstem.connectors.mariadb.columns import CODED, of_binlog
from mainstem.connectors.mariadb.statements import Effect, meaning_of
from mainstem.connectors.port import (
    Begin,
    Change,
    Commit,
    Item,
    Op,
    Position,
    Progress,
    SchemaChange,
    Table,
)
from mainstem.connectors.selection import Selection
from mainstem.connectors.settings import Decimals

_ROWS = binlog.WRITES | binlog.UPDATES | binlog.DELETES
_GTIDS = {binlog.Kind.GTID, binlog.Kind.GTID_MYSQL, binlog.Kind.ANONYMOUS_GTID_MYSQL}
_STATEMENTS = {binlog.Kind.QUERY, binlog.Kind.QUERY_COMPRESSED}
_UNSUPPORTED = {
    binlog.Kind.XA_PREPARE: "a transaction was prepared by XA",
    binlog.Kind.PARTIAL_UPDATE: "the server's binlog_row_value_options is PARTIAL_JSON",
    binlog.Kind.TRANSACTION_PAYLOAD: "the server's binlog_transaction_compression is ON",
}
_MOST_KNOWN = 10_000


class Context(NamedTuple):
    """What is needed to interpret binlog events, besides the events."""

    server: Server
    selection: Selection
    decimals: Decimals
    coded: Callable[[str, str], Mapping[str, str]]
    """Returns the types of a table's columns that a binlog does not tell."""
    again: str
    """What to do when changes are lost."""
    present: Callable[[str, str], Captured]
    """Returns a table as it is now."""


class Changes:
    """Follows the binlog from a position, event by event."""

    def __init__(self, position: Position, context: Context, *, has_checksums: bool) -> None:
        self._context = context
        self._identity = position.of
        self._file, self._end = position.at[0], position.at[1]
        domain, server, sequence = position.at[2:5] or (0, 0, 0)
        self._gtid = binlog.Gtid(domain, server, sequence, is_standalone=False)
        self._committed = self._at = position
        self._begun: binlog.Gtid | None = None
        """The transaction that is being read."""
        self._name = ""
        self._is_published = False
        self._has_checksums = has_checksums
        self._tables: dict[int, Captured | None] = {}
        self._known: dict[bytes, Captured | None] = {}
        self._last: dict[str, Captured] = {}
        self._ddl: dict[str, str] = {}
        self._event = binlog.BinlogEvent(0, 0, 0, 0, b"")

    @property
    def position(self) -> Position:
        """The position after the last complete transaction."""
        return self._at

    def progress(self) -> Progress | None:
        """Return the position if it has advanced and no transaction is open; None otherwise."""
        if self._begun is not None or self._at == self._committed:
            return None
        self._committed = self._at
        return Progress(self._at)

    def decode(self, data: bytes) -> Iterator[Item]:
        """Yield what an event means to the runner; most events yield one item or none."""
        event = self._event = binlog.parse_event(data, has_checksum=self._has_checksums)
        kind = event.kind
        if kind in _ROWS:
            yield from self._rows(event)
        elif kind == binlog.Kind.TABLE_MAP:
            yield from self._table_map(event.body)
        elif kind in _GTIDS:
            self._gtid = self._begun = binlog.parse_gtid(event)
            # Debezium, too, uses the GTID as the transaction's id. MySQL's may be missing, so the
            # place is added.
            is_unique = kind == binlog.Kind.GTID
            at = "" if is_unique else f"@{self._file}:{event.end}"
            self._name = f"{self._gtid.text}{at}"
            self._is_published = False
        elif kind == binlog.Kind.XID:
            yield from self._commit()
        elif kind in _STATEMENTS:
            yield from self._statement(event)
        elif kind == binlog.Kind.ROTATE:
            file, self._end = binlog.parse_rotate(event.body)
            self._file = int(file.rpartition(".")[2])
            self._move(self._end)
            return
        elif kind == binlog.Kind.FORMAT:
            self._has_checksums = binlog.has_checksums(event.body)
        elif kind in _UNSUPPORTED:
            raise self._lost(_UNSUPPORTED[binlog.Kind(kind)])
        if kind != binlog.Kind.HEARTBEAT and event.end:
            self._move(event.end)

    def _move(self, end: int) -> None:
        self._end = end
        if self._begun is None:
            gtid = self._gtid
            at = (self._file, end, gtid.domain, gtid.server, gtid.sequence)
            self._at = Position(at, self._identity)

    # Transactions

    def _begin(self) -> Iterator[Item]:
        if not self._is_published:
            self._is_published = True
            yield Begin(self._name, self._event.timestamp_s * 1_000_000)

    def _commit(self) -> Iterator[Item]:
        self._begun = None
        self._tables.clear()
        self._move(self._event.end)
        if self._is_published:
            self._is_published = False
            self._committed = self._at
            yield Commit(self._at)

    def _statement(self, event: binlog.BinlogEvent) -> Iterator[Item]:
        statement = binlog.parse_query(event)
        text = statement.text.strip().upper()
        if text == "BEGIN":
            if self._begun is not None:
                self._begun = self._begun._replace(is_standalone=False)
            return
        if text in ("COMMIT", "ROLLBACK"):
            yield from self._commit()
            return
        if text.startswith(("SAVEPOINT", "ROLLBACK TO", "RELEASE", "XA ")):
            return
        found = meaning_of(statement.database, statement.text)
        chosen = [each for each in found.tables if self._context.selection.has(*each)]
        if found.effect is Effect.CHANGES_ROWS and (chosen or not found.tables):
            raise self._lost(
                f"a statement has changed rows, and the binlog does not tell which: "
                f"{statement.text:.200}; programs must not set binlog_format"
            )
        for schema, table in chosen:
            self._ddl[f"{schema}.{table}"] = statement.text
            known = self._last.get(f"{schema}.{table}")
            if found.effect is Effect.EMPTIES:
                known = known or self._context.present(schema, table)
                yield from self._begin()
                yield Change(known.table, Op.TRUNCATE, None, None, self._source(known, 0))
        if self._begun is None or self._begun.is_standalone:
            yield from self._commit()

    # Rows

    def _table_map(self, body: bytes) -> Iterator[Item]:
        table_id = binlog.table_id_of(body)
        if body not in self._known:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            described = binlog.parse_table_map(body, is_mariadb=self._context.server.is_mariadb)
            self._known[body] = self._describe(described)
        captured = self._tables[table_id] = self._known[body]
        if captured is None or self._last.get(captured.table.id) is captured:
            return
        self._last[captured.table.id] = captured
        yield from self._begin()
        yield SchemaChange(
            captured.table,
            is_new=False,
            source=self._source(captured, 0),
            ddl=self._ddl.pop(captured.table.id, None),
        )

    def _describe(self, found: binlog.TableMap) -> Captured | None:
        context = self._context
        if not context.selection.has(found.database, found.name):
            return None
        if not found.columns:
            raise self._lost(
                f"the binlog does not name the columns of {found.database}.{found.name}: SET "
                "GLOBAL binlog_row_metadata = FULL, also in the server's configuration file"
            )
        coded: Mapping[str, str] = {}
        if any(each.meta in CODED.values() and each.type == 254 for each in found.columns):
            coded = context.coded(found.database, found.name)
        try:
            specs = [
                of_binlog(each, context.server.by_collation, coded.get(each.name, ""))
                for each in found.columns
            ]
        except SourceRefused as error:
            raise SourceRefused(f"table {found.database}.{found.name}: {error}") from None
        known = self._last.get(f"{found.database}.{found.name}")
        # A table has another id after the server was restarted.
        if known is not None and (known.specs, known.table.key) == (tuple(specs), found.key):
            return known
        return Captured(found.database, found.name, specs, found.key, context.decimals)

    def _rows(self, event: binlog.BinlogEvent) -> Iterator[Item]:
        found = binlog.parse_rows(event)
        if found.table_id not in self._tables:
            return
        captured = self._tables[found.table_id]
        if captured is None:
            return
        yield from self._begin()
        table, kind, key = captured.table, event.kind, captured.table.key
        rows = captured.rows(found.data, found.is_present, found.is_present_after)
        for number, row in enumerate(rows):
            if kind in binlog.UPDATES:
                after = next(rows)
                moved = any(row[each] != after[each] for each in key)
                source = self._source(captured, number)
                yield Change(table, Op.UPDATE, row, after, source, moved)
            elif kind in binlog.WRITES:
                yield Change(table, Op.CREATE, None, row, self._source(captured, number))
            else:
                yield Change(table, Op.DELETE, row, None, self._source(captured, number))

    def _source(self, captured: Captured, row: int) -> dict[str, object]:
        return source_of(
            captured.table,
            server_id=self._event.server_id,
            gtid=self._gtid.text,
            file=self._context.server.file(self._file),
            pos=self._end,
            row=row,
        )

    def _lost(self, why: str) -> SourceRefused:
        where = f"{self._context.server.file(self._file)}:{self._end}"
        return SourceRefused(
            f"the binlog cannot be followed at {where}: {why}; then {self._context.again}"
        )


def source_of(
    table: Table, *, server_id: int, gtid: str | None, file: str, pos: int, row: int
) -> dict[str, object]:
    """Return the fields of Debezium's ``source`` block for a row of a MariaDB table."""
    return {
        "db": table.schema,
        "table": table.name,
        "server_id": server_id,
        "gtid": gtid,
        "file": file,
        "pos": pos,
        "row": row,
        "thread": None,
        "query": None,
    }
