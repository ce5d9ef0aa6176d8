"""Turns messages of pgoutput into changes; keeps the descriptions of the tables in them."""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from mainstem.connectors.errors import SourceFailed
from mainstem.connectors.port import (
    Begin,
    Change,
    Commit,
    Item,
    Op,
    Position,
    Progress,
    SchemaChange,
)
from mainstem.connectors.postgres import pgoutput
from mainstem.connectors.postgres.captured import Captured
from mainstem.connectors.postgres.pgoutput import (
    BeginMessage,
    CommitMessage,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
)
from mainstem.connectors.selection import Selection

Describe = Callable[[Relation], Captured]


class Changes:
    """One stream of messages, from a position on."""

    def __init__(
        self,
        position: Position,
        describe: Describe,
        selection: Selection,
        oldest_lsn: int | None = None,
    ) -> None:
        """``oldest_lsn``: set if nothing was followed before: where the oldest changes are."""
        self._position = position
        self._describe = describe
        self._selection = selection
        self._tables: dict[int, Captured | None] = {}
        """The captured tables by their object id; None for tables that are not captured."""
        self._begin: BeginMessage | None = None
        self._skips = False
        self._last_commit = position.at[0] if oldest_lsn is None else None
        self._oldest_lsn = oldest_lsn

    @property
    def begin_lsn(self) -> int:
        """The end of the last commit, or what is before the changes of the first transaction."""
        found = self._oldest_lsn if self._last_commit is None else self._last_commit
        assert found is not None
        return found

    def begins(self, data: bytes) -> int | None:
        """Return the id of the transaction if a message begins one."""
        return pgoutput.xid_of(data) if data[0] == 66 else None

    def progress(self, wal_end: int) -> Progress | None:
        """Return the position that a keepalive tells, if it is new and between transactions."""
        if self._begin is not None or wal_end <= self._position.at[0]:
            return None
        self._position = Position((wal_end,), self._position.of)
        return Progress(self._position)

    def decode(self, lsn: int, data: bytes) -> Iterable[Item]:
        """Return what a message at a position of the WAL means."""
        try:
            message = pgoutput.decode(data)
        except pgoutput.BadMessage as error:
            raise SourceFailed(f"replication at {lsn:X}: {error}") from None
        if isinstance(message, Insert) and not self._skips:
            captured = self._table(message.relation)
            if captured is None:
                return ()
            row = captured.whole_row(cast("list[str | None]", message.new))
            return (Change(captured.table, Op.CREATE, None, row, self._source(captured, lsn)),)
        return self._decode(lsn, message)

    def _decode(self, lsn: int, message: pgoutput.Message) -> Iterator[Item]:
        if isinstance(message, BeginMessage):
            self._begin = message
            # It ends before the position: it was published already.
            self._skips = message.commit_lsn < self._position.at[0]
            if not self._skips:
                yield Begin(f"{message.xid}:{message.commit_lsn}", message.committed_us)
        elif isinstance(message, CommitMessage):
            yield from self._commit(message)
        elif isinstance(message, Relation):
            yield from self._relation(lsn, message)
        elif not self._skips:
            yield from self._change(lsn, message)

    def _commit(self, message: CommitMessage) -> Iterator[Item]:
        self._begin = None
        if self._skips:
            return
        self._last_commit = message.end_lsn
        self._position = Position((message.end_lsn,), self._position.of)
        yield Commit(self._position)

    def _relation(self, lsn: int, message: Relation) -> Iterator[Item]:
        if not self._selection.has(message.schema, message.name):
            self._tables[message.oid] = None
            return
        captured = self._tables[message.oid] = self._describe(message)
        if not self._skips:
            yield SchemaChange(captured.table, is_new=False, source=self._source(captured, lsn))

    def _change(self, lsn: int, message: pgoutput.Message) -> Iterator[Item]:
        if isinstance(message, Truncate):
            for oid in message.relations:
                if (captured := self._table(oid)) is not None:
                    source = self._source(captured, lsn)
                    yield Change(captured.table, Op.TRUNCATE, None, None, source)
            return
        if not isinstance(message, Update | Delete):
            return
        captured = self._table(message.relation)
        if captured is None:
            return
        table, source = captured.table, self._source(captured, lsn)
        if isinstance(message, Delete):
            before = (captured.key_row if message.old_is_key else captured.row)(message.old)
            yield Change(table, Op.DELETE, before, None, source)
        elif message.old is None:
            after = captured.row(message.new)
            missing = captured.not_logged(message.new)
            yield Change(table, Op.UPDATE, None, after, source, unavailable=missing)
        else:
            before = (captured.key_row if message.old_is_key else captured.row)(message.old)
            old = None if message.old_is_key else message.old
            after = captured.row(message.new, old)
            moved = any(before.get(each) != after.get(each) for each in table.key)
            missing = captured.not_logged(message.new, old)
            yield Change(table, Op.UPDATE, before, after, source, moved, missing)

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
