"""Turns messages of pgoutput into transactions, changes and schema changes."""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from mainstem.connectors import port
from mainstem.connectors.errors import SourceFailed
from mainstem.connectors.postgres import pgoutput
from mainstem.connectors.postgres.captured import Captured
from mainstem.connectors.selection import Selection

Describe = Callable[[pgoutput.Relation], Captured]


class Changes:
    """Interprets the messages of one replication stream, from a position on."""

    def __init__(
        self,
        position: port.Position,
        describe: Describe,
        selection: Selection,
        oldest_lsn: int | None = None,
    ) -> None:
        """``oldest_lsn``: at the first start after a snapshot, where the slot began to decode."""
        self._position = position
        self._describe = describe
        self._selection = selection
        self._tables: dict[int, Captured | None] = {}
        """The captured tables by their object id; None for tables that are not captured."""
        self._begin: pgoutput.BeginMessage | None = None
        self._skips = False
        self._last_commit = position.at[0] if oldest_lsn is None else None
        self._oldest_lsn = oldest_lsn

    @property
    def begin_lsn(self) -> int:
        """The end of the last commit; before the first one, a position before all changes."""
        found = self._oldest_lsn if self._last_commit is None else self._last_commit
        assert found is not None
        return found

    def begins(self, data: bytes) -> int | None:
        """Return the transaction id if the message begins a transaction, None otherwise."""
        return pgoutput.xid_of(data) if data[0] == 66 else None

    def progress(self, wal_end: int) -> port.Progress | None:
        """Return a keepalive's ``wal_end`` as position; None if it brings nothing new.

        Within a transaction it returns None, too.
        """
        if self._begin is not None or wal_end <= self._position.at[0]:
            return None
        self._position = port.Position((wal_end,), self._position.of)
        return port.Progress(self._position)

    def decode(self, lsn: int, data: bytes) -> Iterable[port.Item]:
        """Yield what a message means to the runner; ``lsn`` is its position in the WAL."""
        try:
            message = pgoutput.decode(data)
        except pgoutput.BadMessage as error:
            raise SourceFailed(f"replication at {lsn:X}: {error}") from None
        if isinstance(message, pgoutput.Insert) and not self._skips:
            captured = self._table(message.relation)
            if captured is None:
                return ()
            row = captured.whole_row(cast("list[str | None]", message.new))
            return (
                port.Change(captured.table, port.Op.CREATE, None, row, self._source(captured, lsn)),
            )
        return self._decode(lsn, message)

    def _decode(self, lsn: int, message: pgoutput.Message) -> Iterator[port.Item]:
        if isinstance(message, pgoutput.BeginMessage):
            self._begin = message
            # A transaction that was committed before the position was published already.
            self._skips = message.commit_lsn < self._position.at[0]
            if not self._skips:
                yield port.Begin(f"{message.xid}:{message.commit_lsn}", message.committed_us)
        elif isinstance(message, pgoutput.CommitMessage):
            yield from self._commit(message)
        elif isinstance(message, pgoutput.Relation):
            yield from self._relation(lsn, message)
        elif not self._skips:
            yield from self._change(lsn, message)

    def _commit(self, message: pgoutput.CommitMessage) -> Iterator[port.Item]:
        self._begin = None
        if self._skips:
            return
        self._last_commit = message.end_lsn
        self._position = port.Position((message.end_lsn,), self._position.of)
        yield port.Commit(self._position)

    def _relation(self, lsn: int, message: pgoutput.Relation) -> Iterator[port.Item]:
        if not self._selection.has(message.schema, message.name):
            self._tables[message.oid] = None
            return
        captured = self._tables[message.oid] = self._describe(message)
        if not self._skips:
            yield port.SchemaChange(
                captured.table, is_new=False, source=self._source(captured, lsn)
            )

    def _change(self, lsn: int, message: pgoutput.Message) -> Iterator[port.Item]:
        if isinstance(message, pgoutput.Truncate):
            for oid in message.relations:
                if (captured := self._table(oid)) is not None:
                    source = self._source(captured, lsn)
                    yield port.Change(captured.table, port.Op.TRUNCATE, None, None, source)
            return
        if not isinstance(message, pgoutput.Update | pgoutput.Delete):
            return
        captured = self._table(message.relation)
        if captured is None:
            return
        table, source = captured.table, self._source(captured, lsn)
        if isinstance(message, pgoutput.Delete):
            before = (captured.key_row if message.old_is_key else captured.row)(message.old)
            yield port.Change(table, port.Op.DELETE, before, None, source)
        elif message.old is None:
            after = captured.row(message.new)
            missing = captured.not_logged(message.new)
            yield port.Change(table, port.Op.UPDATE, None, after, source, unavailable=missing)
        else:
            before = (captured.key_row if message.old_is_key else captured.row)(message.old)
            old = None if message.old_is_key else message.old
            after = captured.row(message.new, old)
            moved = any(before.get(each) != after.get(each) for each in table.key)
            missing = captured.not_logged(message.new, old)
            yield port.Change(table, port.Op.UPDATE, before, after, source, moved, missing)

    def _table(self, oid: int) -> Captured | None:
        if oid not in self._tables:
            raise SourceFailed(f"replication: a change of table {oid}, which was not described")
        return self._tables[oid]

    def _source(self, captured: Captured, lsn: int) -> dict[str, object]:
        last = self._last_commit
        sequence = f'[null,"{lsn}"]' if last is None else f'["{last}","{lsn}"]'
        begin = self._begin
        return {
            "sequence": sequence,
            "schema": captured.table.schema,
            "table": captured.table.name,
            "txId": None if begin is None else begin.xid,
            "lsn": lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }
